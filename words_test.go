package haul

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// badWords lists phrases that make a sentence hard to read, and what to write instead of each.
var badWords = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b(?:[Hh]e|[Hh]is|[Hh]im|[Hh]imself)\b`), "they, their or them"},
	{regexp.MustCompile(`\b(?:[Gg]o|[Gg]oes|[Ww]ent|[Gg]one) on\b`), "resume or continue"},
	{regexp.MustCompile(`\b(?:[Cc]ome|[Cc]omes|[Cc]ame) to nothing\b`), "fail"},
	{regexp.MustCompile(`\b(?:is|are|was|were|be|been) told\b`), "is reported, logged or passed"},
	{regexp.MustCompile(`\btells\b|\btell of\b`), "reports, says, shows or lists"},
	{regexp.MustCompile(`\bsettles\b`), "decides or agrees on"},
	{regexp.MustCompile(`\bsees? to (?:it|that|them|the|what|whether|an?)\b`), "handles or ensures"},
	{regexp.MustCompile(`(?:^|[.!] )(?:Who|What) [^.?!:]*\.`), "a sentence with a subject"},
	{regexp.MustCompile(`\b[Tt]here (?:is|are|was|were) none\b`), "the noun that is missing: no setting has this name"},
	{regexp.MustCompile(`(?:^|[.!?] )Those (?:that|who|which|with|without|of|are)\b`), "the noun instead of those"},
}

// wordsExempt matches the files that are not checked: this file contains the bad words itself.
var wordsExempt = regexp.MustCompile(`^words_test\.go$`)

// Comments, string literals and documents contain no bad words.
func TestWords(t *testing.T) {
	files := readTree(t, ".")
	maps.Copy(files, readTree(t, "bench"))
	maps.Copy(files, readTree(t, "cmd/haul/internal/boot/pxe/difftest"))
	for _, name := range documents(t) {
		files[name] = read(t, name)
	}
	found := 0
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if wordsExempt.MatchString(name) {
			continue
		}
		for _, problem := range checkWords(name, files[name]) {
			t.Error(problem)
		}
		found++
	}
	if found < 100 {
		t.Errorf("found %d files; is the search at fault?", found)
	}
}

// documents returns the paths of all documents.
func documents(t *testing.T) (names []string) {
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md"):
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// checkWords returns the places where a Go file or a document contains bad words.
func checkWords(name, src string) (problems []string) {
	check := func(line int, text string) {
		for _, bad := range badWords {
			for _, m := range bad.pattern.FindAllString(text, -1) {
				problems = append(problems, fmt.Sprintf("%s:%d: %q: write %s", name, line, m, bad.instead))
			}
		}
	}
	if strings.HasSuffix(name, ".md") {
		for _, p := range paragraphs(src) {
			check(p.line, p.text)
		}
		return problems
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return []string{err.Error()}
	}
	for _, group := range file.Comments {
		for paragraph := range strings.SplitSeq(group.Text(), "\n\n") {
			check(fset.Position(group.Pos()).Line, strings.Join(strings.Fields(paragraph), " "))
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			text, _ := strconv.Unquote(lit.Value)
			check(fset.Position(lit.Pos()).Line, strings.Join(strings.Fields(text), " "))
		}
		return true
	})
	return problems
}

// A paragraph is a paragraph of a document, with its lines joined. An item of a list and a row of a
// table are paragraphs too.
type paragraph struct {
	line int
	text string
}

// listItem matches the beginning of an item of a list.
var listItem = regexp.MustCompile(`^(?:[-*]|\d+\.) +`)

// paragraphs returns the paragraphs of a document, without headings and code.
func paragraphs(doc string) (all []paragraph) {
	code, begin := false, true
	for i, line := range strings.Split(doc, "\n") {
		line = strings.TrimSpace(line)
		item := listItem.ReplaceAllString(line, "")
		switch {
		case strings.HasPrefix(line, "```"):
			code, begin = !code, true
		case code:
		case line == "", strings.HasPrefix(line, "#"):
			begin = true
		case begin, item != line, strings.HasPrefix(line, "|"):
			all, begin = append(all, paragraph{i + 1, item}), false
		default:
			all[len(all)-1].text += " " + line
		}
	}
	return all
}

// checkWords finds each planted fault, and reports nothing else.
func TestCheckWordsFindsPlantedFaults(t *testing.T) {
	const pkg = "package p\n\n"
	for _, test := range []struct{ name, file, src, want string }{
		{"nothing", "a.go", pkg + "// The hero is what they resume. What now?\nvar x = \"this is the history\"\n", ""},
		{"comment", "a.go", pkg + "// A user has his file.\nvar x int\n", `a.go:3: "his"`},
		{"over two lines", "a.go", pkg + "// The machine is\n// told of it.\nvar x int\n", `a.go:3: "is told"`},
		{"tells", "a.go", pkg + "// The file tells how much.\nvar x int\n", `a.go:3: "tells"`},
		{"settles", "a.go", pkg + "// The server settles it.\nvar x int\n", `a.go:3: "settles"`},
		{"sees to", "a.go", pkg + "// The caller sees to that.\nvar x int\n", `a.go:3: "sees to that"`},
		{"string", "a.go", pkg + "var x = \"the copy goes on\"\n", `a.go:3: "goes on"`},
		{"in a function", "a.go", pkg + "func f() {\n\tx() // it comes to nothing\n}\n", `a.go:4: "comes to nothing"`},
		{"no subject", "a.go", pkg + "// It is small. Who asks waits.\nvar x int\n", `a.go:3: ". Who asks waits."`},
		{"no verb", "a.go", pkg + "// What a client may have.\nvar x int\n", `a.go:3: "What a client may have."`},
		{"document", "a.md", "# What is new\n\nIt is\ntold.\n", `a.md:3: "is told"`},
		{"item", "a.md", "Text:\n- What is left stays.\n", `a.md:2: "What is left stays."`},
		{"code in a document", "a.md", "```\nhe\n```\n", ""},
		{"table", "a.md", "| a | b |\n| he | c |\n", `a.md:2: "he"`},
		{"syntax", "a.go", "package\n", "expected"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := checkWords(test.file, test.src)
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
