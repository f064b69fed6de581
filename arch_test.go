package haul

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/haul-project/haul"

// levels is the architecture, from the top down. A package may import only packages on lower lines,
// so packages on the same line cannot import each other. Every package must be listed here, or in
// forTests: a new package first gets its place. ~ stands for cmd/haul/internal, the folder of the
// program. Go itself keeps the libraries from importing packages of that folder.
var levels = [][]string{
	// The program.
	fields("cmd/haul"),
	fields("~/server/config/convert"),
	fields("~/server/config"),
	fields("~/server/serve ~/client/copying ~/client/fileops"),
	fields("~/server/tftpd ~/server/sftpd ~/server/httpd ~/server/bootd ~/server/admin"),
	fields("~/server/publicfiles ~/server/logins ~/server/ports"),
	fields("~/server/service"),
	fields("~/server/settings"),
	fields("~/server/notify"),
	fields("~/server/audit ~/server/hooks ~/server/source"),
	fields("~/server/activity ~/server/sftpserver ~/client/remote ~/cli/top ~/boot/bootload ~/boot/pxedoctor ~/tftp/load ~/tftp/doctor"),
	fields("~/server/handover ~/server/status ~/server/userroots ~/server/site ~/client/openssh ~/client/runs ~/boot/proxydhcp"),
	fields("~/server/metricsserver ~/cli/commandline ~/cli/events ~/boot/dhcpadvice ~/boot/bootmenu ~/tftp/trace"),
	fields("~/server/meter ~/server/httpend ~/server/writebehind ~/cli/console ~/cli/failure ~/cli/manpage ~/boot ~/boot/pxe ~/tftp/remap"),
	fields("~/boot/dhcp ~/system/fdline ~/system/ownprocess ~/system/privilege ~/system/smallfile ~/system/subprocess"),

	// The libraries.
	fields("sftp sftp/sftpclient tftp tftp/tftpclient web web/webclient store/treecopy store/cache"),
	fields("sftp/internal/mux sftp/internal/storewire sftp/internal/uploadrecord tftp/internal/fileio tftp/internal/packetio internal/glob store/localdir store/s3 tcp tcp/events internal/passwords"),
	fields("tftp/internal/protocol store users internal/certs tcp/internal/drive tcp/internal/sendfile"),
	fields("tftp/transfer udp sftp/internal/wire store/internal/rules tcp/internal/admission"),
	fields("tcp/internal/conns internal/linequeue"),
	fields("tcp/internal/deadline tcp/internal/flow tcp/internal/proxy tcp/internal/rawsock tcp/internal/sources"),
	fields("internal/filelock internal/localfs internal/ownfile internal/penalty internal/pipeline internal/poolhooks internal/rate internal/servertext internal/shares internal/sshconn internal/tempname internal/urlpath internal/webpage internal/wildcard"),
}

// forTests are the packages that only tests may import. Like tests, they may import every package.
var forTests = fields("~/server/servetest ~/server/handovertest ~/cli/screentest tftp/internal/tftptest store/storetest internal/golden internal/instructions internal/leak internal/pipelisten internal/race internal/repeat internal/s3test internal/sim")

// pure packages do no I/O, and have no clock and no goroutines: see pureImports.
var pure = fields("tftp/internal/protocol tftp/transfer sftp/internal/wire tcp/internal/flow internal/urlpath internal/pipeline internal/servertext internal/wildcard ~/boot ~/boot/bootmenu ~/boot/dhcp ~/boot/pxe ~/tftp/remap ~/cli/manpage")

// foreign lists, for each library, the modules of others that it may import. A program that imports
// the library links these modules too.
var foreign = map[string]string{
	"internal/filelock":     "golang.org/x/sys",
	"internal/localfs":      "golang.org/x/sys",
	"sftp":                  "golang.org/x/crypto",
	"sftp/internal/mux":     "golang.org/x/crypto",
	"sftp/sftpclient":       "golang.org/x/crypto",
	"store":                 "golang.org/x/sys",
	"store/localdir":        "golang.org/x/sys",
	"store/s3":              "github.com/minio/minio-go",
	"store/treecopy":        "golang.org/x/sys golang.org/x/text github.com/bmatcuk/doublestar",
	"tcp":                   "golang.org/x/sys",
	"tcp/events":            "golang.org/x/sys",
	"tcp/internal/conns":    "golang.org/x/sys",
	"tcp/internal/rawsock":  "golang.org/x/sys",
	"tcp/internal/sendfile": "golang.org/x/sys",
	"udp":                   "golang.org/x/sys",
	"users":                 "golang.org/x/crypto",
	"web/webclient":         "golang.org/x/net",
}

// fields splits a list of packages, and replaces ~ in their paths.
func fields(list string) []string {
	return strings.Fields(strings.ReplaceAll(list, "~", program))
}

// program is the folder of the packages that only the command uses.
const program = "cmd/haul/internal"

// level returns the index of a package's line in levels. It returns false if the package is not there.
func level(pkg string) (int, bool) {
	for i, all := range levels {
		if slices.Contains(all, pkg) {
			return i, true
		}
	}
	return 0, false
}

// mayImport returns the reason why a package may not import another package of this module, or "" if
// it may. Examples may import what programs may import; interop and scripts may import no package of
// this module. The rules do not apply to tests.
func mayImport(pkg, other string) string {
	from, ok := level(pkg)
	to, known := level(other)
	switch top, _, _ := strings.Cut(pkg, "/"); {
	case slices.Contains(forTests, pkg):
		return ""
	case slices.Contains(forTests, other):
		return "it is for tests"
	case top == "examples" && (strings.HasPrefix(other, "internal/") || strings.Contains(other, "/internal/")):
		return "an example has what programs may import"
	case top == "examples":
		return ""
	case !ok || !known || from >= to:
		return "it is not below"
	}
	return ""
}

// hasPlace reports whether a package is listed in levels or forTests, or need not be listed.
func hasPlace(pkg string) bool {
	_, ok := level(pkg)
	top, _, _ := strings.Cut(pkg, "/")
	return ok || slices.Contains(forTests, pkg) || slices.Contains([]string{".", "examples", "interop", "scripts"}, top)
}

// pureImports are the packages of the standard library that a pure package may import. Packages that
// do I/O are not listed. Neither is net/netip, because a state machine talks to one peer and need not
// know the peer's address.
var pureImports = strings.Fields(`bytes cmp encoding/binary errors fmt iter maps
	math math/bits regexp regexp/syntax slices sort strconv strings time unicode unicode/utf8`)

// impure lists the names in pureImports that a pure package may not use: functions that read the
// clock or use the terminal. Types such as time.Time are allowed.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTicker", "NewTimer", "Local", "LoadLocation"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

func TestArchitecture(t *testing.T) {
	for _, problem := range check(readTree(t, ".")) {
		t.Error(problem)
	}
}

// Each public package has an example that runs, so that users see how to begin.
func TestExamples(t *testing.T) {
	has := map[string]bool{}
	for name, src := range readTree(t, ".") {
		pkg := path.Dir(name)
		if pkg != "." && isPublic(pkg) {
			runs := strings.HasSuffix(name, "_test.go") && strings.Contains(src, "\nfunc Example") && strings.Contains(src, "\t// Output:")
			has[pkg] = has[pkg] || runs
		}
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("package %s has no testable example", pkg)
		}
	}
}

// readTree returns the content of the Go files below root that belong to the module, by their
// slash-separated paths.
func readTree(t *testing.T, root string) map[string]string {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			nested := err == nil && name != root
			hidden := strings.HasPrefix(d.Name(), ".") && name != root
			if nested || hidden || d.Name() == "testdata" || d.Name() == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			b, err := os.ReadFile(name)
			files[filepath.ToSlash(name)] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// check checks Go files, given by their paths, against the rules, and returns the violations.
func check(files map[string]string) (problems []string) {
	fset := token.NewFileSet()
	report := func(at token.Pos, f string, args ...any) {
		problems = append(problems, fset.Position(at).String()+": "+fmt.Sprintf(f, args...))
	}
	documented := map[string]bool{} // packages that have code; true if one of the files has a package comment
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, err := parser.ParseFile(fset, name, files[name], parser.ParseComments)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		if b, err := format.Source([]byte(files[name])); err != nil || !bytes.Equal(b, []byte(files[name])) {
			report(file.Package, "not formatted by gofmt")
		}
		pkg, test := path.Dir(name), strings.HasSuffix(name, "_test.go")
		if !hasPlace(pkg) {
			report(file.Package, "package %s is missing from the levels", pkg)
			continue
		}
		isPure := slices.Contains(pure, pkg)
		for _, spec := range file.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(p, module+"/"); ok {
				if why := mayImport(pkg, ours); why != "" && !test {
					report(spec.Pos(), "%s may not import %s: %s", pkg, ours, why)
				}
			} else if pkg != "cmd/haul" && pkg != program+"/cli/commandline" && strings.HasPrefix(p, "github.com/spf13/") && (pkg != program+"/server/config" || p != "github.com/spf13/pflag") {
				report(spec.Pos(), "%s may not import %s: the command line is for cmd/haul", pkg, spec.Path.Value)
			} else if isPure && !test && (!slices.Contains(pureImports, p) || spec.Name != nil) {
				// A renamed import would hide time.Now from checkPure.
				report(spec.Pos(), "pure package %s may not import %s", pkg, spec.Path.Value)
			} else if !test && !mayLink(pkg, p) {
				report(spec.Pos(), "%s may not import %s: programs that import it would get that, too", pkg, spec.Path.Value)
			}
		}
		if test {
			continue
		}
		documented[pkg] = documented[pkg] || file.Doc != nil
		checkComments(file, report)
		if isPure {
			checkPure(file, report)
		}
	}
	for pkg, ok := range documented {
		if !ok {
			problems = append(problems, "package "+pkg+" has no package comment")
		}
	}
	return problems
}

// mayLink reports whether a package may import `other`, a package of another module. The program and
// tests may import every module in go.mod.
func mayLink(pkg, other string) bool {
	first, _, _ := strings.Cut(other, "/")
	top, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".") || slices.Contains([]string{"cmd", "examples", "interop", "scripts"}, top) || slices.Contains(forTests, pkg) ||
		slices.ContainsFunc(strings.Fields(foreign[pkg]), func(module string) bool { return other == module || strings.HasPrefix(other, module+"/") })
}

// checkPure reports the use of goroutines, channels and names in impure.
func checkPure(file *ast.File, report func(token.Pos, string, ...any)) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n.Pos(), "go statement in a pure package")
		case *ast.SelectStmt:
			report(n.Pos(), "select in a pure package")
		case *ast.ChanType:
			report(n.Pos(), "chan in a pure package")
		case *ast.SendStmt:
			report(n.Pos(), "send in a pure package")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				report(n.Pos(), "receive in a pure package")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(impure[x.Name], n.Sel.Name) {
				report(n.Pos(), "%s.%s in a pure package", x.Name, n.Sel.Name)
			}
		}
		return true
	})
}

// checkComments reports exported names without a comment. In a group of constants, variables or
// types, the comment of the group is enough.
func checkComments(file *ast.File, report func(token.Pos, string, ...any)) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
				report(d.Pos(), "exported %s has no comment", d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if d.Doc == nil && s.Doc == nil && s.Name.IsExported() {
						report(s.Pos(), "exported %s has no comment", s.Name)
					}
				case *ast.ValueSpec:
					for _, name := range s.Names {
						if d.Doc == nil && s.Doc == nil && s.Comment == nil && name.IsExported() {
							report(name.Pos(), "exported %s has no comment", name)
						}
					}
				}
			}
		}
	}
}

// receiver returns the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) string {
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

// Each listed package exists, and is listed once.
func TestLevelsExist(t *testing.T) {
	there := map[string]bool{}
	for name := range readTree(t, ".") {
		there[path.Dir(name)] = true
	}
	listed := append(slices.Concat(levels...), forTests...)
	for i, pkg := range listed {
		if !there[pkg] {
			t.Errorf("package %s does not exist: take it out of the list", pkg)
		}
		if slices.Contains(listed[:i], pkg) {
			t.Errorf("package %s is listed twice", pkg)
		}
	}
	for _, pkg := range append(slices.Collect(maps.Keys(foreign)), pure...) {
		if !there[pkg] {
			t.Errorf("package %s does not exist: take it out of the list", pkg)
		}
	}
}

// check finds each planted fault, and reports nothing else.
func TestCheckFindsPlantedFaults(t *testing.T) {
	const transfer = "// Package transfer is planted.\npackage transfer\n\n"
	tests := []struct{ name, file, src, want string }{
		{"nothing", "tftp/transfer/a.go", transfer + "import \"time\"\n\nfunc f(now time.Time) time.Duration { return now.Sub(now) }\n", ""},
		{"go", "tftp/transfer/a.go", transfer + "func f() { go f() }\n", "go statement"},
		{"clock", "tftp/transfer/a.go", transfer + "import \"time\"\n\nfunc f() time.Time { return time.Now() }\n", "time.Now"},
		{"clock as a value", "tftp/transfer/a.go", transfer + "import \"time\"\n\nvar now = time.Now\n", "time.Now"},
		{"renamed clock", "tftp/transfer/a.go", transfer + "import clock \"time\"\n\nvar now = clock.Now\n", `may not import "time"`},
		{"timer", "tftp/transfer/a.go", transfer + "import \"time\"\n\nvar t = time.NewTimer(1)\n", "time.NewTimer"},
		{"sleep", "tftp/transfer/a.go", transfer + "import \"time\"\n\nfunc f() { time.Sleep(1) }\n", "time.Sleep"},
		{"terminal", "tftp/transfer/a.go", transfer + "import \"fmt\"\n\nfunc f() { fmt.Println() }\n", "fmt.Println"},
		{"channel", "tftp/transfer/a.go", transfer + "var c chan int\n", "chan in"},
		{"send", "tftp/transfer/a.go", transfer + "func f() { c <- 1 }\n", "send in"},
		{"receive", "tftp/transfer/a.go", transfer + "func f() { <-c }\n", "receive in"},
		{"select", "tftp/transfer/a.go", transfer + "func f() {\n\tselect {}\n}\n", "select in"},
		{"forbidden import", "tftp/transfer/a.go", transfer + "import _ \"net\"\n", `may not import "net"`},
		{"addresses", "tftp/transfer/a.go", transfer + "import _ \"net/netip\"\n", `may not import "net/netip"`},
		{"locks", "tftp/transfer/a.go", transfer + "import \"sync\"\n\nvar mu sync.Mutex\n", `may not import "sync"`},
		{"tests of a pure package are free", "tftp/transfer/a_test.go", "package transfer\n\nimport _ \"os\"\n\nfunc f() { go f() }\n", ""},
		{"command line", program + "/server/serve/a.go", "// Package serve is planted.\npackage serve\n\nimport _ \"github.com/spf13/pflag\"\n", "the command line is for cmd/haul"},
		{"upward import", "udp/a.go", "// Package udp is planted.\npackage udp\n\nimport _ \"" + module + "/tftp\"\n", "udp may not import tftp: it is not below"},
		{"import of an equal", "tftp/a.go", "// Package tftp is planted.\npackage tftp\n\nimport _ \"" + module + "/sftp\"\n", "tftp may not import sftp: it is not below"},
		{"import within an example", "examples/hash/a.go", "// Package main is planted.\npackage main\n\nimport _ \"" + module + "/internal/rate\"\n", "an example has what programs may import"},
		{"another module", "udp/a.go", "// Package udp is planted.\npackage udp\n\nimport _ \"golang.org/x/net/ipv4\"\n", "udp may not import \"golang.org/x/net/ipv4\""},
		{"a module that is allowed", "udp/a.go", "// Package udp is planted.\npackage udp\n\nimport _ \"golang.org/x/sys/unix\"\n", ""},
		{"another module in the program", program + "/cli/top/a.go", "// Package top is planted.\npackage top\n\nimport _ \"golang.org/x/term\"\n", ""},
		{"simulator in the product", "tftp/a.go", "// Package tftp is planted.\npackage tftp\n\nimport _ \"" + module + "/internal/sim\"\n", "tftp may not import internal/sim: it is for tests"},
		{"simulator in its tests", "tftp/a_test.go", "package tftp_test\n\nimport (\n\t_ \"" + module + "/internal/sim\"\n\t_ \"" + module + "/tftp\"\n)\n", ""},
		{"unknown package", "util/a.go", "// Package util is planted.\npackage util\n", "util is missing from the levels"},
		{"format", "udp/a.go", "// Package udp is planted.\npackage udp\nvar  x int\n", "not formatted"},
		{"package comment", "udp/a.go", "package udp\n", "package udp has no package comment"},
		{"function comment", "udp/a.go", "// Package udp is planted.\npackage udp\n\nfunc Read() {}\n", "exported Read has no comment"},
		{"method comment", "udp/a.go", "// Package udp is planted.\npackage udp\n\n// A Conn is planted.\ntype Conn[T any] int\n\nfunc (c *Conn[T]) Read() {}\n", "exported Read has no comment"},
		{"hidden type's method", "udp/a.go", "// Package udp is planted.\npackage udp\n\ntype conn int\n\nfunc (c *conn) Read() {}\n", ""},
		{"group comment", "udp/a.go", "// Package udp is planted.\npackage udp\n\n// Limits.\nconst (\n\tMax = 1\n\tMin = 0\n)\n", ""},
		{"type comment", "udp/a.go", "// Package udp is planted.\npackage udp\n\ntype Conn int\n", "exported Conn has no comment"},
		{"syntax", "udp/a.go", "package\n", "expected"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := check(map[string]string{test.file: test.src})
			if test.want == "" {
				if len(got) > 0 {
					t.Errorf("want no problem, got %q", got)
				}
			} else if len(got) != 1 || !strings.Contains(got[0], test.want) {
				t.Errorf("want one problem with %q, got %q", test.want, got)
			}
		})
	}
}
