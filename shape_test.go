package haul

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// The bounds for the shape of a package, which decides whether a newcomer can read the package from
// top to bottom. A place that is listed in overShape, with a reason, may exceed a bound.
const (
	maxMethods    = 40 // methods of a type
	maxFields     = 25 // fields of a struct
	maxParameters = 7  // parameters of a function
	// maxBack is the percentage of the arrows between the files of a package that may lead back up:
	// see backArrows. One such arrow is always allowed.
	maxBack = 10
)

// manyLines is the number of lines above which a package probably has more than one subject. The test
// only logs such a package and does not fail, because a package should be split where its subjects
// part, and not because of its size.
const manyLines = 5000

// overShape maps each place that may exceed a bound to the reason.
var overShape = map[string]string{}

// TestShape checks the packages of the product, as Linux builds them, against the bounds.
func TestShape(t *testing.T) {
	used := map[string]bool{}
	for pkg, files := range productPackages(t) {
		shape, err := measure(pkg, files)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range shape.problems() {
			if used[problem.place] = true; overShape[problem.place] == "" {
				t.Errorf("%s: %s", problem.place, problem.text)
			}
		}
		if shape.lines > manyLines {
			t.Logf("package %s has %d lines: does it have one subject?", pkg, shape.lines)
		}
		if testing.Verbose() && len(shape.arrows) > 0 {
			t.Logf("%s: %d lines, %d files, %d arrows, %d back", pkg, shape.lines, len(files), len(shape.arrows), len(shape.back))
			for _, a := range shape.back {
				t.Logf("\t%s -> %s (%s)", a.from, a.to, strings.Join(shape.arrows[a], " "))
			}
		}
	}
	for place := range overShape {
		if !used[place] {
			t.Errorf("%s keeps to the bound: take it out of the list", place)
		}
	}
}

// productPackages returns the files of each package of the product, as Linux builds it. The keys are
// the paths of the package and of the file.
func productPackages(t *testing.T) map[string]map[string]string {
	all := map[string]map[string]string{}
	for name, src := range readTree(t, ".") {
		pkg := path.Dir(name)
		top, _, _ := strings.Cut(pkg, "/")
		if strings.HasSuffix(name, "_test.go") || !forLinux(name, src) || slices.Contains([]string{".", "examples", "interop", "scripts"}, top) {
			continue
		}
		if all[pkg] == nil {
			all[pkg] = map[string]string{}
		}
		all[pkg][name] = src
	}
	return all
}

// forLinux reports whether a file is built for linux/amd64 without further tags.
func forLinux(name, src string) bool {
	is := func(tag string) bool {
		return slices.Contains([]string{"linux", "unix", "amd64"}, tag) || strings.HasPrefix(tag, "go1")
	}
	for _, part := range strings.Split(strings.TrimSuffix(path.Base(name), ".go"), "_")[1:] {
		if slices.Contains([]string{"darwin", "windows", "arm", "arm64", "freebsd", "openbsd", "netbsd"}, part) {
			return false
		}
	}
	for line := range strings.Lines(src) {
		if strings.HasPrefix(line, "package ") {
			break
		}
		if expr, err := constraint.Parse(strings.TrimSpace(line)); err == nil && !expr.Eval(is) {
			return false
		}
	}
	return true
}

// An arrow leads from a file to another file, which declares a name that the first one uses.
type arrow struct{ from, to string }

// A shape holds the measurements of a package.
type shape struct {
	pkg        string
	lines      int
	methods    map[string]int     // number of methods of each type
	fields     map[string]int     // number of fields of each struct
	parameters map[string]int     // number of parameters of each function
	arrows     map[arrow][]string // the names because of which each arrow exists
	back       []arrow            // arrows that lead upwards in the best order of the files
}

// A problem says that a place, such as a type, exceeds a bound.
type problem struct{ place, text string }

// problems lists the places where a shape exceeds the bounds.
func (s *shape) problems() (all []problem) {
	over := func(what string, most int, counts map[string]int) {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if n := counts[name]; n > most {
				all = append(all, problem{s.pkg + "." + name + " " + what, fmt.Sprintf("%d, and %d are the most", n, most)})
			}
		}
	}
	over("methods", maxMethods, s.methods)
	over("fields", maxFields, s.fields)
	over("parameters", maxParameters, s.parameters)
	if back, n := len(s.back), len(s.arrows); back > 1 && back*100 > n*maxBack {
		all = append(all, problem{s.pkg + " arrows", fmt.Sprintf("%d of %d between its files run back up, and %d %% are the most; go test -v -run TestShape . lists them", back, n, maxBack)})
	}
	return all
}

// nothing is an importer for which each package is empty. Names of other packages are then unknown,
// which does no harm here.
type nothing struct{}

func (nothing) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// measure measures a package. files maps the names of its files to their contents.
func measure(pkg string, files map[string]string) (*shape, error) {
	s := &shape{pkg: pkg, methods: map[string]int{}, fields: map[string]int{}, parameters: map[string]int{}, arrows: map[arrow][]string{}}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, err := parser.ParseFile(fset, name, files[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
		s.lines += strings.Count(files[name], "\n")
		s.count(file)
	}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: nothing{}, Error: func(error) {}, FakeImportC: true}
	_, _ = config.Check(pkg, fset, parsed, &info) // it returns errors, because all imports are empty
	for id, object := range info.Uses {
		if object.Pkg() == nil || object.Pkg().Path() != pkg {
			continue
		}
		from, to := fset.Position(id.Pos()).Filename, fset.Position(object.Pos()).Filename
		if from != to && to != "" && isDeclaration(object) {
			a := arrow{path.Base(from), path.Base(to)}
			if !slices.Contains(s.arrows[a], id.Name) {
				s.arrows[a] = append(s.arrows[a], id.Name)
			}
		}
	}
	for _, names := range s.arrows {
		slices.Sort(names)
	}
	s.back = backArrows(s.arrows)
	return s, nil
}

// isDeclaration reports whether an object is declared at the top level of its package: a function, a
// method, a type, a variable or a constant. Fields do not count, because code that uses a field
// depends on the type of the struct anyway.
func isDeclaration(object types.Object) bool {
	if v, ok := object.(*types.Var); ok && v.IsField() {
		return false
	}
	if f, ok := object.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return object.Parent() == object.Pkg().Scope()
}

// count counts methods, fields and parameters of a file.
func (s *shape) count(file *ast.File) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				s.methods[receiver(d)]++
				name = receiver(d) + "." + name
			}
			s.parameters[name] = d.Type.Params.NumFields()
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					if st, ok := t.Type.(*ast.StructType); ok {
						s.fields[t.Name.Name] = st.Fields.NumFields()
					}
				}
			}
		}
	}
}

// backArrows arranges files from top to bottom so that few arrows lead upwards, and returns the arrows
// that still do. It moves one file at a time, as long as that reduces their number.
func backArrows(arrows map[arrow][]string) (back []arrow) {
	var order []string
	for a := range arrows {
		order = append(order, a.from, a.to)
	}
	slices.Sort(order)
	order = slices.Compact(order)
	out := func(f string) (n int) {
		for a := range arrows {
			if a.from == f {
				n++
			} else if a.to == f {
				n--
			}
		}
		return n
	}
	slices.SortStableFunc(order, func(a, b string) int { return out(b) - out(a) })
	has := func(from, to string) int {
		if _, ok := arrows[arrow{from, to}]; ok {
			return 1
		}
		return 0
	}
	for moved := true; moved; {
		moved = false
		for i := range order {
			// gain is the number of arrows that no longer lead upwards if file i moves to place j.
			best, to := 0, i
			for gain, j := 0, i-1; j >= 0; j-- {
				if gain += has(order[i], order[j]) - has(order[j], order[i]); gain > best {
					best, to = gain, j
				}
			}
			for gain, j := 0, i+1; j < len(order); j++ {
				if gain += has(order[j], order[i]) - has(order[i], order[j]); gain > best {
					best, to = gain, j
				}
			}
			if to != i {
				f := order[i]
				order = slices.Insert(slices.Delete(order, i, i+1), to, f)
				moved = true
			}
		}
	}
	for i, f := range order {
		for _, above := range order[:i] {
			if has(f, above) == 1 {
				back = append(back, arrow{f, above})
			}
		}
	}
	return back
}

// measure finds each planted fault, and reports nothing else.
func TestShapeFindsPlantedFaults(t *testing.T) {
	const p = "package p\n\n"
	many := func(n int, line string) (text string) {
		for i := range n {
			text += fmt.Sprintf(line, i)
		}
		return text
	}
	// Each of n files uses a name of the next file.
	down := func(n int) map[string]string {
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprintf("p/f%02d.go", i)] = p + fmt.Sprintf("func f%d() { f%d() }\n", i, i+1)
		}
		files[fmt.Sprintf("p/f%02d.go", n)] = p + fmt.Sprintf("func f%d() {}\n", n)
		return files
	}
	circles := func(n int) map[string]string {
		files := down(n)
		files["p/f07.go"] += "\nvar _ = f0\n"
		files[fmt.Sprintf("p/f%02d.go", n)] += "\nvar _ = f8\n"
		return files
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"methods", map[string]string{"p/a.go": p + "type T int\n" + many(maxMethods, "func (t *T) m%d() {}\n")}, ""},
		{"a method too many", map[string]string{"p/a.go": p + "type T[A any] int\n" + many(maxMethods, "func (t *T[A]) m%d() {}\n"), "p/b.go": p + "func (t T[A]) x() {}\n"}, "p.T methods: 41,"},
		{"fields", map[string]string{"p/a.go": p + "type T struct {\n" + many(maxFields, "f%d int\n") + "}\n"}, ""},
		{"a field too many", map[string]string{"p/a.go": p + "type T struct {\na, b int\n" + many(maxFields-1, "f%d int\n") + "}\n"}, "p.T fields: 26,"},
		{"a parameter too many", map[string]string{"p/a.go": p + "func f(a, b, c, d, e, f, g, h int) {}\n"}, "p.f parameters: 8,"},
		{"a parameter too many of a method", map[string]string{"p/a.go": p + "func (T) f(a, b, c, d, e, f, g, h int) {}\n\ntype T int\n"}, "p.T.f parameters: 8,"},
		{"downwards", down(20), ""},
		{"one back", map[string]string{"p/a.go": p + "func a() { b() }\n", "p/b.go": p + "func b() { a() }\n"}, ""},
		{"two back of many", circles(18), ""},
		{"two back of fewer", circles(17), "p arrows: 2 of 19"},
		{"methods count", map[string]string{
			"p/a.go": p + "type A int\n\nfunc (a A) f(b B) { b.f(a) }\n", "p/b.go": p + "type B int\n\nfunc (b B) f(a A) { a.f(b) }\n",
			"p/c.go": p + "type C int\n\nfunc (c C) f(d D) { d.f(c) }\n", "p/d.go": p + "type D int\n\nfunc (d D) f(c C) { c.f(d) }\n",
		}, "p arrows: 2 of 4"},
		{"fields and locals do not", map[string]string{
			"p/a.go": p + "type A struct{ b int }\n\nfunc a() { var b B; b.a++ }\n", "p/b.go": p + "type B struct{ a int }\n\nfunc f() { a := 1; _ = a }\n",
		}, ""},
		{"names of other packages do not", map[string]string{"p/a.go": p + "import \"q\"\n\nfunc a() { q.B(); q.C() }\n", "p/b.go": p + "func B() { a() }\n", "p/c.go": p + "func C() { a() }\n"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := measure("p", test.files)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, problem := range s.problems() {
				got += problem.place + ": " + problem.text
			}
			if (test.want == "") != (got == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("want %q, got %q", test.want, got)
			}
		})
	}
}

// Only files that Linux builds are measured, because files for several systems may declare the same
// name.
func TestForLinux(t *testing.T) {
	for name, want := range map[string]bool{
		"a.go": true, "a_linux.go": true, "a_windows.go": false, "a_linux_arm64.go": false, "a_unix.go": true, "windows.go": true,
	} {
		if got := forLinux(name, "package p\n"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for line, want := range map[string]bool{
		"//go:build linux": true, "//go:build !linux": false, "//go:build haul_portable || !linux": false, "//go:build ignore": false, "//go:build unix && !haul_portable": true,
	} {
		if got := forLinux("a.go", line+"\n\npackage p\n"); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
