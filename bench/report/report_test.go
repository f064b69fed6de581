package report

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/bench/suite/record"
)

var rewriteGolden = flag.Bool("rewrite", false, "write the golden files anew, to be read before they are committed")

const madeUp = "testdata/results.jsonl"

func loaded(t *testing.T, paths ...string) *Report {
	t.Helper()
	r, err := Load(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewriteGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range g {
		if i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s differs in line %d (go test ./report -rewrite writes it anew):\n%s", path, i+1, g[i])
		}
	}
	t.Fatalf("%s has %d lines more than there should be", path, len(w)-len(g))
}

func TestMarkdownIsAsItWas(t *testing.T) {
	golden(t, "report.md", loaded(t, madeUp).Markdown())
}

func TestHeadlineIsAsItWas(t *testing.T) {
	golden(t, "headline.md", loaded(t, madeUp).Headline())
}

func TestSameLinesSameReport(t *testing.T) {
	first, err := loaded(t, madeUp).HTML()
	if err != nil {
		t.Fatal(err)
	}
	text := loaded(t, madeUp).Markdown()
	for range 5 {
		again, err := loaded(t, madeUp).HTML()
		if err != nil {
			t.Fatal(err)
		}
		if again != first || loaded(t, madeUp).Markdown() != text {
			t.Fatal("the same file gave two reports")
		}
	}
}

// one returns a report of a scenario in which contenders have a figure for each round; NaN is a
// failed round.
func one(scenario string, m record.Metric, figures map[string][]float64) *Report {
	var lines []record.Line
	for name, rounds := range figures {
		for round, f := range rounds {
			l := record.Line{Run: "r", Scenario: record.Scenario{Name: scenario}, Contender: record.Contender{Name: name}, Round: round}
			if math.IsNaN(f) {
				l.Error = "it fell over"
			} else {
				l.Figures = map[record.Metric]float64{m: f, record.Transfers: 100}
			}
			lines = append(lines, l)
		}
	}
	r := &Report{}
	r.arrange(lines)
	return r
}

func TestRatioIsOfTheSameRound(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name        string
		haul, other []float64
		want        float64
	}{
		{"disturbed rounds cancel out", []float64{1, 10, 3}, []float64{2, 20, 6}, 0.5},
		{"an even number", []float64{1, 3}, []float64{1, 1}, 2},
		{"a round is missing", []float64{1, nan, 3}, []float64{1, 1, 1}, 2},
		{"no round in common", []float64{1, nan}, []float64{nan, 1}, nan},
		{"divided by nothing", []float64{1}, []float64{0}, nan},
		{"nobody there", []float64{1}, nil, nan},
	} {
		r := one("s", record.Rate, map[string][]float64{"haul": c.haul, "x": c.other})
		got := ratio(r.get("s", "haul"), r.get("s", "x"), record.Rate)
		if got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The best peer is the one with the best figure, even if the ratio to another is worse, because
// that is computed from the rounds.
func TestBestPeerHasTheBestFigure(t *testing.T) {
	for _, c := range []struct {
		metric record.Metric
		want   string
		ratio  float64
	}{{record.Rate, "x", 20. / 21}, {record.Seconds, "y", 0.75}} {
		r := one("s", c.metric, map[string][]float64{"haul": {10, 20, 30}, "x": {5, 21, 60}, "y": {20, 19, 40}, "floor-64": {1, 20.5, 100}})
		if who, f := r.bestPeer("s", c.metric); who != c.want || f != c.ratio {
			t.Errorf("%s: %s and %v, want %s and %v", c.metric, who, f, c.want, c.ratio)
		}
		if c.metric == record.Rate {
			if row := r.headline(headline{scenario: "s", metric: c.metric}, new(notes)); row[3] != "21.0 (x)" || row[4] != "0.952 x" {
				t.Errorf("the row is %q", row)
			}
		}
	}
}

// If a scenario was measured again, rounds of the earlier run must not be mixed with those of the
// later one, whichever file comes first.
func TestLatestRunCounts(t *testing.T) {
	at := func(run string, f float64) record.Line {
		return record.Line{Run: run, Scenario: record.Scenario{Name: "s"}, Contender: record.Contender{Name: "haul"},
			Figures: map[record.Metric]float64{record.Rate: f}}
	}
	for _, lines := range [][]record.Line{{at("1", 5), at("2", 7)}, {at("2", 7), at("1", 5)}} {
		r := &Report{}
		r.arrange(lines)
		if got := r.get("s", "haul").median(record.Rate); got != 7 {
			t.Errorf("%v, want 7", got)
		}
		if len(r.runs) != 1 {
			t.Errorf("the report has %d runs, want 1", len(r.runs))
		}
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"only old lines": {`{"format":1}` + "\n", "no line of format 2"},
		"empty":          {"", "no line of format 2"},
		"something else": {"# a\n# b\n", "line 1 is not a result"},
		"a wrong type":   {`{"format":2,"round":"x"}` + "\n", "line 1"},
	} {
		path := filepath.Join(t.TempDir(), "f.jsonl")
		if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file is no error")
	}
}

// Any lines must give a report.
func TestAnythingCanBeMissing(t *testing.T) {
	full, err := os.ReadFile(madeUp)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range strings.SplitAfter(string(full), "\n") {
		path := filepath.Join(t.TempDir(), "f.jsonl")
		if err := os.WriteFile(path, []byte(l), 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Load(path)
		if err != nil {
			continue // the old line, and the incomplete one
		}
		r.Markdown()
		r.Headline()
		if _, err := r.HTML(); err != nil {
			t.Errorf("line %d alone: %v", i+1, err)
		}
	}
}

// Scenarios with another name in older results appear with those of the new name.
func TestRenamed(t *testing.T) {
	old := record.Scenario{Name: "sftp-doc3-up-rtt9", Group: "sftp-doc3"}
	rename(&old)
	if old.Name != "sftp-doc5-up-rtt9" || old.Group != "sftp-doc5" {
		t.Errorf("%s of %s", old.Name, old.Group)
	}
	other := record.Scenario{Name: "sftp-doc3", Group: "sftp-get"}
	if rename(&other); other.Name != "sftp-doc3" {
		t.Errorf("%s, of a group that has its old name", other.Name)
	}
}
