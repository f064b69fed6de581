package report

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func document(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	return path
}

func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadmeBlockIsReplaced(t *testing.T) {
	r := loaded(t, madeUp)
	path := document(t, "before\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nafter\n")
	for range 2 { // the second time changes nothing
		if err := r.Readme(path); err != nil {
			t.Fatal(err)
		}
		want := "before\n<!-- bench:begin -->\n\n" + strings.TrimSpace(r.Summary()) + "\n\n<!-- bench:end -->\nafter\n"
		if got := contents(t, path); got != want {
			t.Errorf("got:\n%s", got)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the document's mode changed: %v, %v", info, err)
	}
}

func TestNamedBlocksAreReplaced(t *testing.T) {
	r := loaded(t, madeUp)
	path := document(t, "a\n<!-- bench:goals:begin -->\n<!-- bench:goals:end -->\nb\n<!-- bench:many-cpu:begin -->x<!-- bench:many-cpu:end -->\nc\n")
	if err := r.Docs(path); err != nil {
		t.Fatal(err)
	}
	got := contents(t, path)
	for _, want := range []string{"a\n<!-- bench:goals:begin -->\n\n", "| goal |", "\nb\n", "**Server CPU for each DATA packet, us**", "<!-- bench:many-cpu:end -->\nc\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

func TestDocumentStaysIfItsMarkersAreWrong(t *testing.T) {
	r := loaded(t, madeUp)
	for _, c := range []struct {
		content string
		replace func(string) error
		want    string
	}{
		{"no marker", r.Readme, "once each"},
		{"<!-- bench:begin -->", r.Readme, "once each"},
		{"<!-- bench:end --><!-- bench:begin -->", r.Readme, "stands before"},
		{"<!-- bench:begin --><!-- bench:end --><!-- bench:begin --><!-- bench:end -->", r.Readme, "once each"},
		{"no marker", r.Docs, "no block"},
		{"<!-- bench:goals:begin -->", r.Docs, "once each"},
		{"<!-- bench:goals:begin --><!-- bench:goals:end --><!-- bench:what:begin --><!-- bench:what:end -->", r.Docs, `no table is called "what"`},
	} {
		path := document(t, c.content)
		if err := c.replace(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.content, err, c.want)
		}
		if got := contents(t, path); got != c.content {
			t.Errorf("%q became %q", c.content, got)
		}
	}
}

// Results are for others too, so they contain no path of the machine where they were made.
func TestResultsNameNoPaths(t *testing.T) {
	latest, err := filepath.Glob("../results/latest/*.jsonl")
	if err != nil || len(latest) == 0 {
		t.Fatalf("no results are committed in results/latest: %v", err)
	}
	absolute := regexp.MustCompile(`[\s"'(:=]/(dev|etc|home|mnt|opt|root|srv|tmp|usr|var|work)/\S*`)
	for _, file := range latest {
		for i, line := range strings.Split(contents(t, file), "\n") {
			if path := absolute.FindString(line); path != "" {
				t.Errorf("%s:%d: %s", filepath.Base(file), i+1, path)
			}
		}
	}
}

// tables is the document with all tables of the newest committed results.
const tables = "bench/results/latest/README.md"

// README, the charts, docs/benchmarks.md and the tables quote the newest committed results, and
// the test keeps them the same.
func TestDocumentsAreFromTheLatestResults(t *testing.T) {
	latest, err := filepath.Glob("../results/latest/*.jsonl")
	if err != nil || len(latest) == 0 {
		t.Fatalf("no results are committed in results/latest: %v", err)
	}
	r := loaded(t, latest...)
	readme := func(doc string) (string, error) { return replaced(doc, readmeBlock, r.Summary()) }
	chart := func(string) (string, error) { return r.Chart(), nil }
	documents := map[string]func(string) (string, error){
		"README.md": readme, "docs/benchmarks.md": r.docs, tables: r.docs, "docs/img/figures.svg": chart,
	}
	charts, err := r.Charts()
	if err != nil {
		t.Fatal(err)
	}
	for name, svg := range charts {
		documents["docs/img/"+name] = func(string) (string, error) { return svg, nil }
	}
	for path, make := range documents {
		doc := contents(t, filepath.Join("../..", path))
		want, err := make(doc)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if doc != want {
			t.Errorf("%s has other figures than bench/results/latest; \"bench report --help\" has the command that mends it", path)
		}
	}
}

// There is a block for each part with measurements.
func TestMeasuredSectionsAreInADocument(t *testing.T) {
	latest, err := filepath.Glob("../results/latest/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	doc := contents(t, "../../docs/benchmarks.md") + contents(t, "../../"+tables)
	for _, s := range loaded(t, latest...).Sections() {
		if len(s.Tables) > 0 && !strings.Contains(doc, begin(s.Name)) {
			t.Errorf("it has no place for %q: %s", s.Name, begin(s.Name))
		}
	}
}

// A document shows each chart, and each shows what its text says.
func TestCharts(t *testing.T) {
	shown := contents(t, "../../README.md") + contents(t, "../../docs/benchmarks.md")
	charts, err := sftpReport().Charts()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := charts["sftp-ramp-get.svg"]; !ok || len(charts) != 4 {
		t.Errorf("there are %d charts of SFTP, want those of distance and of the ramp, both ways", len(charts))
	}
	for name, svg := range charts {
		if !strings.Contains(shown, "img/"+name+")") {
			t.Errorf("no document shows %s", name)
		}
		var drawn struct {
			Texts []string `xml:"text"`
		}
		if err := xml.Unmarshal([]byte(svg), &drawn); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Contains(drawn.Texts, "haul") || !slices.Contains(drawn.Texts, "OpenSSH sftp") {
			t.Errorf("%s has the texts %q, without the legend", name, drawn.Texts)
		}
	}
}

// README has few rows, including loads where haul is slower, and the chart shows the same rows.
func TestSummary(t *testing.T) {
	r := loaded(t, madeUp)
	if n := len(r.summary()); n == 0 || n > 8 {
		t.Errorf("it has %d rows", n)
	}
	var drawn struct {
		Bars []struct{} `xml:"rect"`
	}
	if err := xml.Unmarshal([]byte(r.Chart()), &drawn); err != nil {
		t.Fatal(err)
	}
	if len(drawn.Bars) != 2*len(r.summary()) {
		t.Errorf("%d bars for %d rows:\n%s", len(drawn.Bars), len(r.summary()), r.Chart())
	}
}
