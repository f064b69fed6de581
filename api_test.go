package haul

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("update", false, "rewrite api.txt")

// maxExported is how many names the public packages may export in all: functions, types, methods,
// variables and constants. Each name is a promise, so this bound may be lowered but not raised.
const maxExported = 650

// TestAPI compares the exported names of the public packages with the list in api.txt. So each change
// of the API appears in a review, as a change of that file. To rewrite the file, run
// go test . -run TestAPI -update.
func TestAPI(t *testing.T) {
	lines, names := exported(t, readTree(t, "."))
	if names > maxExported {
		t.Errorf("%d names are exported, and %d are the most", names, maxExported)
	}
	got := strings.Join(lines, "\n") + "\n"
	if *updateAPI {
		if err := os.WriteFile("api.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := strings.Split(read(t, "api.txt"), "\n")
	for _, line := range lines {
		if !slices.Contains(want, line) {
			t.Errorf("new: %s", line)
		}
	}
	for _, line := range want {
		if line != "" && !slices.Contains(lines, line) {
			t.Errorf("gone: %s", line)
		}
	}
	if t.Failed() {
		t.Log("if the change is meant: go test . -run TestAPI -update")
	}
}

// isPublic reports whether programs may import a package.
func isPublic(pkg string) bool {
	top, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains("/"+pkg+"/", "/internal/") && !slices.Contains([]string{"cmd", "examples", "interop", "scripts"}, top)
}

// exported returns a line for each exported name of the public packages, and for each exported field
// and method of their types. names is the number of different names, not counting the fields of
// structs and the methods of interfaces.
func exported(t *testing.T, files map[string]string) (lines []string, names int) {
	fset := token.NewFileSet()
	for name, src := range files {
		pkg := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") || !isPublic(pkg) {
			continue
		}
		file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range exportedBy(fset, file) {
			lines = append(lines, pkg+": "+line)
		}
	}
	slices.Sort(lines)
	lines = slices.Compact(lines) // several files, one for each system, may declare the same name
	seen := map[string]bool{}
	for _, line := range lines {
		if key := nameOf(line); key != "" && !seen[key] {
			seen[key] = true
			names++
		}
	}
	return lines, names
}

// nameOf returns the package and the name in a line of exported. It returns "" for a field of a struct
// and for a method of an interface.
func nameOf(line string) string {
	pkg, rest, _ := strings.Cut(line, ": ")
	kind, rest, _ := strings.Cut(rest, " ")
	if kind == "field" {
		return ""
	}
	if kind == "method" {
		receiver, rest, _ := strings.Cut(rest, ") ")
		return pkg + strings.Trim(receiver, "(*") + "." + strings.FieldsFunc(rest, notLetter)[0]
	}
	return pkg + "." + strings.FieldsFunc(rest, notLetter)[0]
}

func notLetter(r rune) bool { return strings.ContainsRune("([ =,", r) }

// exportedBy returns a line for each name that one file exports.
func exportedBy(fset *token.FileSet, file *ast.File) (lines []string) {
	text := func(n any) string {
		var b bytes.Buffer
		_ = printer.Fprint(&b, fset, n)
		return strings.Join(strings.Fields(b.String()), " ")
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			signature := strings.TrimPrefix(text(d.Type), "func")
			switch {
			case !d.Name.IsExported():
			case d.Recv == nil:
				lines = append(lines, "func "+d.Name.Name+signature)
			case ast.IsExported(receiver(d)):
				lines = append(lines, "method ("+text(d.Recv.List[0].Type)+") "+d.Name.Name+signature)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						lines = append(lines, exportedType(s, text)...)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if name.IsExported() {
							line := d.Tok.String() + " " + name.Name
							if s.Type != nil {
								line += " " + text(s.Type)
							}
							lines = append(lines, line)
						}
					}
				}
			}
		}
	}
	return lines
}

// exportedType returns a line for a type, and one more for each exported field of a struct or method
// of an interface.
func exportedType(s *ast.TypeSpec, text func(any) string) (lines []string) {
	head := "type " + s.Name.Name
	if s.TypeParams != nil {
		head += strings.TrimSuffix(strings.TrimPrefix(text(&ast.FuncType{TypeParams: s.TypeParams, Params: &ast.FieldList{}}), "func"), "()")
	}
	var list *ast.FieldList
	switch u := s.Type.(type) {
	case *ast.StructType:
		lines, list = append(lines, head+" struct"), u.Fields
	case *ast.InterfaceType:
		lines, list = append(lines, head+" interface"), u.Methods
	default:
		equals := " "
		if s.Assign.IsValid() {
			equals = " = "
		}
		return []string{head + equals + text(s.Type)}
	}
	for _, f := range list.List {
		of := "field " + s.Name.Name + "."
		switch {
		case len(f.Names) == 0:
			lines = append(lines, of+text(f.Type)) // an embedded type
		case f.Names[0].IsExported():
			for _, name := range f.Names {
				lines = append(lines, of+name.Name+" "+text(f.Type))
			}
		}
	}
	return lines
}

// Each kind of exported name has its line, and no other name has one.
func TestExportedNames(t *testing.T) {
	lines, names := exported(t, map[string]string{
		"p/a.go": "package p\n\nimport \"io\"\n\n// D is planted.\ntype D[T any] struct {\n\tio.Reader\n\tA, B int\n\tc int\n}\n\n" +
			"func (d *D[T]) M(a int) (b error) { return nil }\n\nfunc (d D[T]) n() {}\n\ntype e int\n\nfunc (e) M() {}\n\n" +
			"type I interface {\n\tio.Writer\n\tW(p []byte) error\n}\n\ntype F = func(int)\n\nconst (\n\tX = iota\n\tY\n\tz\n)\n\nvar V, w int\n\nfunc G[T any](t ...T) {}\n",
		"p/a_linux.go":      "package p\n\nfunc S(a int) {}\n",
		"p/a_other.go":      "package p\n\nfunc S(b int) {}\n",
		"p/a_test.go":       "package p\n\nfunc Test() {}\n",
		"internal/q/a.go":   "package q\n\nfunc Q() {}\n",
		"cmd/haul/main.go":  "package main\n\nfunc Main() {}\n",
		"p/internal/r/a.go": "package r\n\nfunc R() {}\n",
	})
	want := []string{
		"p: const X", "p: const Y", "p: field D.A int", "p: field D.B int", "p: field D.io.Reader", "p: field I.W func(p []byte) error", "p: field I.io.Writer",
		"p: func G[T any](t ...T)", "p: func S(a int)", "p: func S(b int)", "p: method (*D[T]) M(a int) (b error)",
		"p: type D[T any] struct", "p: type F = func(int)", "p: type I interface", "p: var V int",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if names != 9 { // they are X, Y, D, M, I, F, V, G and S
		t.Errorf("%d names, want 9", names)
	}
}
