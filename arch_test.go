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

// A rule says what one package may do. Package lists are separated by spaces.
type rule struct {
	pure    bool   // no I/O, no clock, no goroutines: see pureImports
	imports string // packages of ours it may import
	tests   string // and those that only its tests may
}

// The architecture. Imports point down this table, and packages on one level
// leave each other alone. A package that is not here may not exist, so a new
// one begins with a line here.
var rules = map[string]rule{
	".": {},
	"cmd/haul": {
		imports: "internal/boot internal/bootload internal/dhcpadvice internal/proxydhcp internal/pxedoctor pxe tftp/doctor tftp/load tftp/trace tftp/transfer sftp/sftpclient web/webclient users site store store/filter store/glob store/s3 store/cache store/treecopy internal/copying internal/events internal/fileops internal/remote internal/config internal/config/convert internal/commandline internal/serve internal/console internal/failure internal/smallfile internal/handover internal/hooks internal/openssh internal/subprocess internal/sftpserver internal/top",
		tests:   "tftp sftp tcp/certs udp internal/status internal/serve/servetest internal/handover/handovertest internal/repeat internal/race internal/golden store/localdir store/storetest internal/s3test",
	},
	"internal/commandline": {imports: "internal/manpage internal/console internal/failure"},
	"internal/serve": {
		imports: "tftp tftp/tftpclient tftp/trace tftp/transfer tftp/remap sftp web tcp tcp/certs users site meter udp store store/localdir internal/console internal/failure internal/linequeue internal/ownprocess internal/smallfile internal/handover internal/privilege internal/penalty internal/writebehind store/cache internal/metricsserver internal/source internal/proxydhcp internal/status internal/userroots internal/activity internal/notify",
		tests:   "pxe internal/race internal/s3test internal/serve/servetest internal/handover/handovertest internal/pipelisten store/storetest sftp/sftpclient",
	},
	"internal/userroots":       {imports: "internal/console internal/failure store store/localdir users", tests: "internal/serve/servetest"},
	"internal/sftpserver":      {imports: "internal/console internal/failure sftp store/localdir users"},
	"internal/config":          {imports: "tftp tftp/trace tftp/transfer pxe site internal/serve internal/hooks internal/notify internal/console internal/failure internal/smallfile", tests: "tcp internal/golden"},
	"internal/config/convert":  {imports: "internal/config internal/console internal/failure tftp/transfer", tests: "internal/golden internal/serve"},
	"internal/serve/servetest": {imports: "internal/s3test sftp tftp users"}, // for tests
	"internal/httpend":         {},
	"internal/metricsserver":   {imports: "internal/httpend", tests: "internal/serve/servetest meter"},
	"internal/status":          {imports: "internal/console internal/httpend internal/passwords internal/penalty internal/webpage meter pxe store users", tests: "internal/handover internal/leak"},
	"internal/top":             {imports: "internal/console internal/failure internal/status", tests: "internal/golden meter"},
	"internal/webpage":         {},
	"internal/passwords":       {imports: "internal/penalty users"},
	"internal/source": {
		imports: "internal/failure internal/linequeue internal/openssh internal/privilege internal/remote meter store store/cache web/webclient",
		tests:   "internal/serve/servetest sftp users web store/localdir store/storetest",
	},
	"internal/fileops": {imports: "store store/treecopy internal/remote internal/console internal/events internal/failure internal/tempname", tests: "sftp/sftpclient"},
	"internal/copying": {
		imports: "tftp/tftpclient sftp/sftpclient web/webclient store store/localdir store/glob store/s3 store/treecopy internal/remote internal/console internal/events internal/failure internal/rate",
		tests:   "tftp internal/golden internal/serve/servetest",
	},
	"internal/remote": {
		imports: "tftp/tftpclient tftp/trace tftp/transfer sftp/sftpclient web/webclient store store/glob store/s3 store/treecopy internal/console internal/failure internal/openssh internal/runs internal/subprocess",
		tests:   "sftp users internal/serve/servetest",
	},
	"examples/bucket":                {imports: "store/s3 tftp", tests: "tftp/tftpclient"},
	"examples/collect":               {imports: "store tftp", tests: "tftp/tftpclient"},
	"examples/dropbox":               {imports: "sftp store/localdir users", tests: "sftp/sftpclient"},
	"examples/hash":                  {imports: "store web/webclient"},
	"examples/readthrough":           {imports: "store/cache tftp web/webclient", tests: "tftp/tftpclient"},
	"examples/tlsecho":               {imports: "tcp tcp/certs"},
	"interop":                        {}, // knows haul by its binary alone
	"internal/bootload":              {imports: "internal/boot internal/console internal/ownprocess tftp/tftpclient tftp/transfer", tests: "tftp store internal/leak"},
	"tftp/load":                      {imports: "tftp/tftpclient tftp/transfer internal/console internal/ownprocess", tests: "tftp store internal/leak"},
	"tftp/doctor":                    {imports: "tftp/tftpclient tftp/transfer udp", tests: "internal/serve/servetest tftp store internal/leak store/storetest"},
	"tftp":                           {imports: "tftp/internal/fileio tftp/internal/packetio tftp/transfer udp store internal/linequeue internal/rate", tests: "store/localdir tftp/tftpclient tftp/internal/tftptest internal/sim internal/leak internal/race internal/repeat store/storetest"},
	"tftp/tftpclient":                {imports: "tftp/internal/fileio tftp/internal/packetio tftp/transfer udp store store/localdir", tests: "tftp tftp/internal/tftptest internal/leak internal/race internal/repeat store/storetest"},
	"tftp/internal/fileio":           {imports: "tftp/transfer store"},
	"tftp/internal/tftptest":         {imports: "tftp/internal/packetio tftp/transfer udp store"}, // for tests
	"tftp/internal/packetio":         {imports: "tftp/transfer udp store"},
	"site":                           {imports: "tftp/remap store", tests: "store/storetest store/localdir"},
	"sftp":                           {imports: "internal/tempname sftp/internal/storewire sftp/internal/wire internal/penalty internal/rate internal/sshconn store users", tests: "internal/leak internal/race internal/repeat internal/golden store/storetest store/localdir"},
	"sftp/sftpclient":                {imports: "internal/tempname sftp/internal/mux sftp/internal/storewire sftp/internal/uploadrecord sftp/internal/wire internal/pipeline internal/rate internal/sshconn store", tests: "internal/leak internal/race store/storetest sftp users internal/repeat store/localdir"},
	"sftp/internal/mux":              {imports: "sftp/internal/wire internal/pipeline internal/rate internal/sshconn"},
	"sftp/internal/uploadrecord":     {imports: "internal/tempname sftp/internal/wire"},
	"sftp/internal/storewire":        {imports: "sftp/internal/wire store"},
	"internal/sshconn":               {tests: "internal/leak"},
	"internal/race":                  {},                                            // for tests: nobody's imports, only their tests
	"internal/sim":                   {imports: "udp store"},                        // for tests: nobody's imports, only their tests
	"internal/instructions":          {tests: "internal/race"},                      // a test
	"internal/repeat":                {},                                            // for tests
	"internal/pipelisten":            {},                                            // for tests
	"internal/s3test":                {},                                            // for tests
	"internal/golden":                {imports: "internal/console internal/repeat"}, // the same
	"internal/leak":                  {},                                            // the same
	"tftp/trace":                     {imports: "tftp/transfer", tests: "internal/leak internal/golden"},
	"tftp/remap":                     {pure: true},
	"tftp/transfer":                  {pure: true, tests: "internal/race internal/repeat internal/golden"},
	"web":                            {imports: "internal/passwords internal/penalty internal/rate internal/webpage store users", tests: "internal/leak internal/race internal/repeat internal/golden internal/pipelisten store/storetest store/localdir"},
	"web/webclient":                  {imports: "internal/pipeline internal/rate internal/servertext store", tests: "store/treecopy web internal/repeat internal/pipelisten store/storetest store/localdir"},
	"sftp/internal/wire":             {pure: true},
	"internal/pipeline":              {pure: true, tests: "internal/race internal/repeat internal/golden"},
	"meter":                          {},
	"internal/console":               {tests: "internal/serve/servetest"}, // knows no protocol
	"internal/events":                {imports: "internal/console internal/failure"},
	"internal/manpage":               {pure: true},
	"internal/failure":               {},
	"internal/smallfile":             {},
	"internal/filelock":              {},
	"internal/runs":                  {imports: "internal/filelock internal/tempname"},
	"internal/tempname":              {},
	"internal/linequeue":             {},
	"internal/ownprocess":            {},
	"internal/penalty":               {tests: "internal/repeat"},
	"internal/rate":                  {},
	"internal/servertext":            {pure: true},
	"internal/subprocess":            {},
	"internal/wildcard":              {pure: true},
	"internal/localfs":               {},
	"pxe":                            {pure: true, tests: "internal/golden internal/race"},
	"internal/pxedoctor":             {imports: "internal/console internal/proxydhcp pxe store tftp/tftpclient"},
	"internal/dhcpadvice":            {imports: "pxe", tests: "internal/golden"},
	"internal/proxydhcp":             {imports: "internal/dhcpadvice internal/failure internal/linequeue meter pxe store", tests: "internal/console internal/golden internal/leak store/storetest"},
	"internal/boot":                  {pure: true, tests: "internal/golden internal/race internal/repeat"},
	"internal/writebehind":           {tests: "tcp/certs"},
	"tcp":                            {imports: "tcp/internal/deadline tcp/internal/flow tcp/internal/proxy tcp/internal/rawsock tcp/internal/sendfile tcp/internal/sources", tests: "internal/leak tcp/certs"},
	"tcp/internal/deadline":          {},
	"tcp/internal/flow":              {pure: true, tests: "internal/repeat"},
	"tcp/internal/proxy":             {},
	"tcp/internal/rawsock":           {},
	"tcp/internal/sendfile":          {imports: "internal/localfs"},
	"tcp/internal/sources":           {tests: "internal/repeat"},
	"tcp/certs":                      {imports: "internal/filelock"},
	"internal/openssh":               {imports: "internal/sshconn internal/subprocess internal/wildcard", tests: "internal/leak internal/repeat"},
	"users":                          {imports: "internal/filelock internal/wildcard", tests: "internal/leak"},
	"internal/activity":              {imports: "internal/console internal/tempname meter pxe sftp store tftp users web"},
	"internal/audit":                 {imports: "internal/activity internal/console internal/linequeue meter store"},
	"internal/hooks":                 {imports: "internal/activity internal/fdline internal/linequeue internal/privilege internal/smallfile internal/subprocess meter"},
	"internal/notify":                {imports: "internal/activity internal/audit internal/failure internal/hooks internal/ownprocess internal/privilege internal/userroots meter store/localdir"},
	"internal/fdline":                {},
	"internal/handover":              {imports: "internal/fdline internal/privilege tcp udp", tests: "internal/handover/handovertest"},
	"internal/handover/handovertest": {},
	"internal/privilege":             {},
	"udp":                            {tests: "internal/leak"},
	"store":                          {imports: "internal/tempname store/internal/rules", tests: "store/localdir store/storetest"},
	"store/localdir":                 {imports: "internal/tempname internal/filelock internal/localfs store store/internal/rules", tests: "internal/race store/storetest"},
	"store/internal/rules":           {},
	"store/s3":                       {imports: "internal/pipeline internal/rate internal/servertext store store/internal/rules", tests: "internal/race internal/pipelisten internal/s3test store/treecopy store/localdir store/storetest"},
	"store/cache":                    {imports: "internal/filelock store store/localdir", tests: "internal/race internal/repeat store/storetest web/webclient"},
	"store/filter":                   {},
	"store/treecopy":                 {imports: "internal/tempname store store/filter store/glob internal/rate", tests: "sftp sftp/sftpclient internal/leak internal/race internal/repeat store/storetest store/localdir"},
	"store/glob":                     {imports: "store", tests: "store/localdir"},
	"store/storetest":                {imports: "store"},
	"scripts":                        {},
}

// How large a package may be, without its tests: one can be read in an hour.
const (
	maxLines = 5000
	maxFiles = 30
)

// A size is what a larger package may have, and why.
type size struct {
	lines, files int
	reason       string
}

var larger = map[string]size{
	"internal/serve": {5000, 31, "a few files for each protocol that it assembles"},
}

// pureImports are the imports of a pure package. Packages that do I/O are missing, and
// so is net/netip: a machine speaks to one peer and need not know where it is.
var pureImports = strings.Fields(`bytes cmp encoding/binary errors fmt iter maps
	math math/bits regexp regexp/syntax slices sort strconv strings time unicode unicode/utf8`)

// impure are the names that a pure package may not use of those: types like time.Time
// are welcome, the clock and the terminal are not.
var impure = map[string][]string{
	"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTicker", "NewTimer", "Local", "LoadLocation"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

func TestArchitecture(t *testing.T) {
	for _, problem := range check(readTree(t, ".")) {
		t.Error(problem)
	}
}

// Each package for programs shows how to begin, by an example that runs.
func TestExamples(t *testing.T) {
	has := map[string]bool{}
	for name, src := range readTree(t, ".") {
		pkg := path.Dir(name)
		if first, _, _ := strings.Cut(pkg, "/"); !strings.Contains("/"+pkg+"/", "/internal/") && !slices.Contains(strings.Fields(". cmd examples interop scripts"), first) {
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

// readTree returns the Go files of this module, by their slash-separated path.
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

// check holds Go files, by path, against the rules and returns what breaks them.
func check(files map[string]string) (problems []string) {
	fset := token.NewFileSet()
	report := func(at token.Pos, f string, args ...any) {
		problems = append(problems, fset.Position(at).String()+": "+fmt.Sprintf(f, args...))
	}
	documented := map[string]bool{} // false: has code, no package comment yet
	imported := map[string]bool{}   // by "importer imported"; false: only by its tests
	sizes := map[string]size{}
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
		r, ok := rules[pkg]
		if !ok {
			report(file.Package, "package %s is missing from the table", pkg)
			continue
		}
		allowed := strings.Fields(r.imports)
		if test {
			allowed = append(strings.Fields(r.imports+" "+r.tests), pkg)
		}
		for _, spec := range file.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(p, module+"/"); ok {
				if !slices.Contains(allowed, ours) {
					report(spec.Pos(), "%s may not import %s", pkg, ours)
				}
				imported[pkg+" "+ours] = imported[pkg+" "+ours] || !test
			} else if pkg != "cmd/haul" && pkg != "internal/commandline" && strings.HasPrefix(p, "github.com/spf13/") && (pkg != "internal/config" || p != "github.com/spf13/pflag") {
				report(spec.Pos(), "%s may not import %s: the command line is for cmd/haul", pkg, spec.Path.Value)
			} else if r.pure && !test && (!slices.Contains(pureImports, p) || spec.Name != nil) {
				// A renamed import would hide time.Now from checkPure.
				report(spec.Pos(), "pure package %s may not import %s", pkg, spec.Path.Value)
			}
		}
		if test {
			continue
		}
		documented[pkg] = documented[pkg] || file.Doc != nil
		sizes[pkg] = size{lines: sizes[pkg].lines + strings.Count(files[name], "\n"), files: sizes[pkg].files + 1}
		checkComments(file, report)
		if r.pure {
			checkPure(file, report)
		}
	}
	for pkg, ok := range documented {
		if !ok {
			problems = append(problems, "package "+pkg+" has no package comment")
		}
	}
	problems = append(problems, unused(documented, imported)...)
	for pkg, is := range sizes {
		most, ok := larger[pkg]
		if !ok {
			most = size{lines: maxLines, files: maxFiles}
		}
		if is.lines > most.lines || is.files > most.files {
			problems = append(problems, fmt.Sprintf("package %s has %d lines in %d files without its tests, and %d in %d are the most: cut it",
				pkg, is.lines, is.files, most.lines, most.files))
		}
	}
	return problems
}

// unused returns what the table allows to a package that is there, and nothing does.
func unused(there, imported map[string]bool) (problems []string) {
	for _, pkg := range slices.Sorted(maps.Keys(there)) {
		for p := range strings.FieldsSeq(rules[pkg].imports) {
			if there[p] && !imported[pkg+" "+p] {
				problems = append(problems, fmt.Sprintf("package %s may import %s and does not: shorten its line in the table", pkg, p))
			}
		}
		for p := range strings.FieldsSeq(rules[pkg].tests) {
			if byCode, ok := imported[pkg+" "+p]; there[p] && (!ok || byCode) {
				problems = append(problems, fmt.Sprintf("tests of package %s may import %s and need not be allowed to: shorten its line in the table", pkg, p))
			}
		}
	}
	return problems
}

// checkPure reports goroutines, channels and clocks.
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

// checkComments reports exported names without a comment. In a group of
// constants, variables or types the group's comment is enough.
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

// receiver names the type a method belongs to.
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

// An import that the table allows and nothing needs must be found, in a package and in its tests.
func TestCheckFindsUnusedRules(t *testing.T) {
	files := map[string]string{
		"internal/rate/a.go":    "// Package rate is planted.\npackage rate\n",
		"internal/sshconn/a.go": "// Package sshconn is planted.\npackage sshconn\n",
		"internal/leak/a.go":    "// Package leak is planted.\npackage leak\n",
		"sftp/a.go":             "// Package sftp is planted.\npackage sftp\n\nimport _ \"" + module + "/internal/rate\"\n",
	}
	want := []string{
		"tests of package internal/sshconn may import internal/leak and need not be allowed to",
		"package sftp may import internal/sshconn and does not",
		"tests of package sftp may import internal/leak and need not be allowed to",
	}
	got := check(files)
	if len(got) != len(want) {
		t.Fatalf("want %d problems, got %q", len(want), got)
	}
	for i, problem := range got {
		if !strings.HasPrefix(problem, want[i]) {
			t.Errorf("want %q, got %q", want[i], problem)
		}
	}
}

// Each planted fault must be found, and nothing but it.
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
		{"but keep to the table", "tftp/transfer/a_test.go", "package transfer\n\nimport _ \"" + module + "/udp\"\n", "tftp/transfer may not import udp"},
		{"command line", "internal/serve/a.go", "// Package serve is planted.\npackage serve\n\nimport _ \"github.com/spf13/pflag\"\n", "the command line is for cmd/haul"},
		{"upward import", "udp/a.go", "// Package udp is planted.\npackage udp\n\nimport _ \"" + module + "/tftp\"\n", "udp may not import tftp"},
		{"simulator in the product", "tftp/a.go", "// Package tftp is planted.\npackage tftp\n\nimport _ \"" + module + "/internal/sim\"\n", "tftp may not import internal/sim"},
		{"simulator in its tests", "tftp/a_test.go", "package tftp_test\n\nimport (\n\t_ \"" + module + "/internal/sim\"\n\t_ \"" + module + "/tftp\"\n)\n", ""},
		{"unknown package", "util/a.go", "// Package util is planted.\npackage util\n", "util is missing from the table"},
		{"format", "udp/a.go", "// Package udp is planted.\npackage udp\nvar  x int\n", "not formatted"},
		{"package comment", "udp/a.go", "package udp\n", "package udp has no package comment"},
		{"function comment", "udp/a.go", "// Package udp is planted.\npackage udp\n\nfunc Read() {}\n", "exported Read has no comment"},
		{"method comment", "udp/a.go", "// Package udp is planted.\npackage udp\n\n// A Conn is planted.\ntype Conn[T any] int\n\nfunc (c *Conn[T]) Read() {}\n", "exported Read has no comment"},
		{"hidden type's method", "udp/a.go", "// Package udp is planted.\npackage udp\n\ntype conn int\n\nfunc (c *conn) Read() {}\n", ""},
		{"group comment", "udp/a.go", "// Package udp is planted.\npackage udp\n\n// Limits.\nconst (\n\tMax = 1\n\tMin = 0\n)\n", ""},
		{"type comment", "udp/a.go", "// Package udp is planted.\npackage udp\n\ntype Conn int\n", "exported Conn has no comment"},
		{"too many lines", "udp/a.go", "// Package udp is planted.\npackage udp\n" + strings.Repeat("\n// Planted.\n", maxLines/2), "udp has 5002 lines"},
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
