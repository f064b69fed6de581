package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/haul-project/haul/bench/suite"
	"github.com/haul-project/haul/bench/suite/record"
)

// short returns a report of a short run: some scenarios, and only haul.
func short(names ...string) *Report {
	var lines []record.Line
	for _, s := range suite.Full() {
		if slices.Contains(names, s.Name) {
			lines = append(lines, record.Line{Run: "r", Scenario: s.Scenario, Contender: record.Contender{Name: "haul"},
				Figures: map[record.Metric]float64{record.Rate: 5, record.Seconds: 1, record.SecondsPerFile: 1, record.CPUPerPacket: 2, record.Transfers: 3, record.Failed: 0}})
		}
	}
	r := &Report{files: []string{"short.jsonl"}}
	r.arrange(lines)
	return r
}

// namesIn returns the words in a text that are names of scenarios.
func namesIn(text string) map[string]bool {
	known := make(map[string]bool)
	for _, s := range suite.Full() {
		known[s.Name] = true
	}
	found := make(map[string]bool)
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '+' }) {
		if known[w] {
			found[w] = true
		}
	}
	return found
}

// After a short run most scenarios were not measured. Naming each of them would fill most of the
// report, so it only counts them. The page, where they are folded, and documents contain the
// names.
func TestWhatWasNotMeasuredIsCounted(t *testing.T) {
	measured := []string{"doc1-download", "window-down", "links-lan1g-w16", "loss"}
	r := short(measured...)
	md := r.Markdown()
	for name := range namesIn(md) {
		if !slices.Contains(measured, name) {
			t.Errorf("the report names %s, which was not measured", name)
		}
	}
	if n := len(strings.Split(md, "\n")); n > 120 {
		t.Errorf("a report of %d scenarios has %d lines", len(measured), n)
	}
	for _, want := range []string{
		"Nothing was measured of 22 parts: Many downloads at once, Many uploads at once, Go against C, ",
		"not measured: 12 of its 13 scenarios",
		" goals of which nothing was measured.",
	} {
		if !strings.Contains(md, want) {
			t.Errorf("it does not say %q:\n%s", want, md)
		}
	}
	for line := range strings.Lines(md) {
		if strings.TrimSpace(line) == "Not measured." || strings.HasPrefix(line, "|") && strings.Contains(line, "single-port") {
			t.Errorf("a part or a row without anything in it: %s", line)
		}
	}

	missing := r.goalSection().Missing
	if len(missing) < 50 || slices.Contains(missing, "window-down") {
		t.Errorf("not measured: %q", missing)
	}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := r.docs("<!-- bench:goals:begin --><!-- bench:goals:end -->")
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the page": strings.ReplaceAll(page, "&#43;", "+"), "a document": doc} {
		found := namesIn(text)
		for _, name := range missing {
			if !found[name] {
				t.Errorf("%s does not name %s", where, name)
			}
		}
		if want := fmt.Sprintf("%d scenarios not measured", len(missing)); !strings.Contains(text, want) {
			t.Errorf("%s does not say %q", where, want)
		}
	}
	if got := strings.Count(r.Headline(), "\n|"); got != 1+3 || !strings.Contains(r.Headline(), "10 of 13 loads were not measured.") {
		t.Errorf("the headline has %d rows:\n%s", got, r.Headline())
	}
}

// A block that a document needs exists, whether it was measured or not.
func TestBlocksOfNothing(t *testing.T) {
	blocks := short("window-down").blocks()
	for _, name := range []string{"many", "go-vs-c", "links-vpn", "beside"} {
		if !strings.Contains(blocks[name], "Not measured.") {
			t.Errorf("%s: %q", name, blocks[name])
		}
	}
}

// A run in parts repeats a round that was cut off: the second time counts.
func TestRoundMadeAgain(t *testing.T) {
	line := func(round int, rate float64, failed, absent string) record.Line {
		l := record.Line{Run: "r", Scenario: record.Scenario{Name: "s"}, Contender: record.Contender{Name: "haul"}, Round: round, Error: failed, Absent: absent}
		if failed == "" && absent == "" {
			l.Figures = map[record.Metric]float64{record.Rate: rate}
		}
		return l
	}
	for name, c := range map[string]struct {
		lines  []record.Line
		rates  []float64
		errors []string
		absent string
	}{
		"measured twice":          {[]record.Line{line(0, 1, "", ""), line(1, 2, "", ""), line(1, 3, "", "")}, []float64{1, 3}, nil, ""},
		"failed before":           {[]record.Line{line(0, 0, "hung", ""), line(0, 2, "", "")}, []float64{2}, nil, ""},
		"failed then":             {[]record.Line{line(0, 2, "", ""), line(0, 0, "hung", "")}, nil, []string{"hung"}, ""},
		"failures in their order": {[]record.Line{line(1, 0, "b", ""), line(0, 0, "a", "")}, nil, []string{"a", "b"}, ""},
		"not to be had at first":  {[]record.Line{line(-1, 0, "", "no link"), line(0, 2, "", "")}, []float64{2}, nil, ""},
		"not to be had any more":  {[]record.Line{line(0, 2, "", ""), line(-1, 0, "", "no link")}, []float64{2}, nil, ""},
		"not to be had":           {[]record.Line{line(-1, 0, "", "no link")}, nil, nil, "no link"},
	} {
		r := &Report{}
		r.arrange(c.lines)
		got := r.get("s", "haul")
		if !slices.Equal(got.values(record.Rate), c.rates) || !slices.Equal(got.errors(), c.errors) || got.absent != c.absent {
			t.Errorf("%s: rates %v, errors %q, absent %q", name, got.values(record.Rate), got.errors(), got.absent)
		}
	}
}
