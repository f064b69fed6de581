package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// A Section is a group of tables and plots.
type Section struct {
	Name   string // name by which documents refer to the section in a marker, such as "many"
	Title  string
	Intro  string
	Tables []Table
	Plots  []Plot

	// Missing lists scenarios of the section that were not measured. A report in Markdown only
	// counts them; a page and a document list their names.
	Missing []string
}

// A Table has a row for each contender, or for each thing that its first column names.
type Table struct {
	Name    string // name in a marker for this table alone, such as "many-cpu"
	Caption string
	Head    []string
	Rows    []Row
	Notes   []string // remarks below the table, which say why a figure is missing or doubtful
	Words   int      // number of leading columns with words instead of figures; 0 means 1
	Prose   bool     // all columns contain words
}

// Word reports whether a column contains words.
func (t Table) Word(column int) bool { return t.Prose || column < max(t.Words, 1) }

// Said reports whether a column contains verdicts on goals.
func (t Table) Said(column int) bool { return t.Head[column] == verdictHead }

// A Row is one line of a table, in plain text.
type Row struct {
	Cells []string
	Kind  Kind
}

// A Kind says how a row is highlighted.
type Kind string

// The kinds of rows: for haul, for a floor, and for a goal that is reached, missed or unknown.
const (
	Ours    Kind = "ours"
	Floor   Kind = "floor"
	Reached Kind = "yes"
	Missed  Kind = "no"
	Unknown Kind = "unknown"
)

// add appends the row of a contender.
func (t *Table) add(name string, cells ...string) {
	row := Row{Cells: append([]string{name}, cells...)}
	switch {
	case isHaul(name):
		row.Kind = Ours
	case isFloor(name):
		row.Kind = Floor
	}
	t.Rows = append(t.Rows, row)
}

// notes collects the remarks below a table: for each contender and reason, the scenarios to which
// the reason applies.
type notes struct {
	said    []note
	missing []string // scenarios that were not measured
}

type note struct {
	who, why string
	where    []string
}

func (n *notes) say(who, scenario, why string) {
	why = shorten(why)
	i := slices.IndexFunc(n.said, func(s note) bool { return s.who == who && s.why == why })
	if i < 0 {
		n.said = append(n.said, note{who: who, why: why})
		i = len(n.said) - 1
	}
	if !slices.Contains(n.said[i].where, scenario) {
		n.said[i].where = append(n.said[i].where, scenario)
	}
}

// lack records that a scenario was not measured.
func (n *notes) lack(scenario string) {
	if !slices.Contains(n.missing, scenario) {
		n.missing = append(n.missing, scenario)
	}
}

// lines formats the remarks, one on each line. Contenders with the same reason in the same
// scenarios share a line.
func (n *notes) lines() []string {
	var all []string
	who := make(map[string][]string)
	for _, s := range n.said {
		rest := fmt.Sprintf("(%s): %s", strings.Join(s.where, ", "), s.why)
		if who[rest] == nil {
			all = append(all, rest)
		}
		who[rest] = append(who[rest], s.who)
	}
	for i, rest := range all {
		all[i] = strings.Join(who[rest], ", ") + " " + rest
	}
	if n := len(n.missing); n > 0 {
		all = append(all, fmt.Sprintf("Not measured: %s of this table.", count(n, "scenario")))
	}
	return all
}

// reasons formats the remarks as one text, without the names of the contenders.
func (n *notes) reasons() string {
	var all []string
	for _, s := range n.said {
		all = append(all, s.why+": "+strings.Join(s.where, ", "))
	}
	return strings.Join(all, "; ")
}

// show returns a contender's figure in a scenario as a text: its median or, for failures, its sum.
// In n it records why a figure is missing, or what is wrong with it.
func (r *Report) show(n *notes, scenario, contender string, m record.Metric) string {
	s := r.of[scenario]
	if s == nil {
		n.lack(scenario)
		return none
	}
	c := s.of[contender]
	for _, flaw := range c.flaws() {
		n.say(contender, scenario, flaw)
	}
	f := c.median(m)
	if m == record.Failed {
		f = c.sum(m)
	}
	if !finite(f) {
		n.say(contender, scenario, c.lacking(m))
		return none
	}
	if k := len(c.values(m)); k < len(c.rounds) {
		n.say(contender, scenario, fmt.Sprintf("%s was measured in %d of %d rounds", unitOf(m).what, k, len(c.rounds)))
	}
	return unitOf(m).show(f)
}

// versus returns the ratio of haul's figure to a contender's figure, as a text.
func (r *Report) versus(scenario, contender string, m record.Metric) string {
	if contender == "haul" {
		return ""
	}
	return times(ratio(r.get(scenario, "haul"), r.get(scenario, contender), m))
}

// A column shows one metric in one scenario.
type column struct {
	scenario string
	metric   record.Metric
	title    string // title of the column; "" means the unit of the metric
	versus   bool   // show the ratio of haul's figure to the figure of the row's contender, instead of the figure
}

func (c column) head() string {
	switch {
	case c.title != "":
		return c.title
	case c.versus:
		return "haul to it, " + unitOf(c.metric).short
	}
	return unitOf(c.metric).short
}

// byContender completes the table t with the columns, and a row for each contender. The title of
// the first column is `first`. It leaves out scenarios that were not measured.
func (r *Report) byContender(t Table, first string, columns ...column) Table {
	var n notes
	var from []*scenario
	t.Head = []string{first}
	columns = slices.DeleteFunc(columns, func(c column) bool {
		if r.of[c.scenario] == nil {
			n.lack(c.scenario)
		}
		return r.of[c.scenario] == nil
	})
	for _, c := range columns {
		t.Head = append(t.Head, c.head())
		from = append(from, r.of[c.scenario])
	}
	for _, who := range contenders(from...) {
		var cells []string
		for _, c := range columns {
			if c.versus {
				cells = append(cells, r.versus(c.scenario, who, c.metric))
			} else {
				cells = append(cells, r.show(&n, c.scenario, who, c.metric))
			}
		}
		t.add(who, cells...)
	}
	t.Notes = n.lines()
	return t
}
