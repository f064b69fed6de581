// Package report formats the content of results files: tables in Markdown, one HTML page with
// plots, and the blocks of other documents that quote figures. It depends only on the lines, so
// the same lines always give the same report, to the byte.
//
//	r, err := report.Load("results/latest/links.jsonl")
//	text := r.Markdown()
//	page, err := r.HTML()
//	err = r.Readme("../README.md")
//
// Figures are medians over the rounds of a run. Two contenders are compared by the median of the
// ratios in each round, in which they took turns: a disturbance of the machine in a round
// affected both. goals.go has the goals as data, and sections.go defines which group of scenarios
// is in which table.
package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// A Report holds the content of results files, arranged by scenarios and contenders.
type Report struct {
	files   []string // names of the results files, without directories
	remarks []string // remarks about the files, for readers of the report
	runs    []run    // the runs that have figures in the report, oldest first
	absent  []absence
	order   []string // names of the scenarios, in the order in which they were first measured
	of      map[string]*scenario
}

// A run is one start of the suite.
type run struct {
	record.Environment
	began     string
	rounds    int // largest number of rounds of a contender
	scenarios int // number of scenarios whose figures are from this run
	versions  map[string]record.Contender
}

// An absence names a contender that was absent from a run, and the reason.
type absence struct{ name, why string }

// A scenario holds the cells of its contenders by name. All of them are from the same run.
type scenario struct {
	record.Scenario
	began string // when that run began
	of    map[string]*cell
}

// A cell holds the results of one contender in one scenario.
type cell struct {
	record.Contender
	rounds   map[int]map[record.Metric]float64 // figures of the successful rounds, by round
	series   map[int][]float64                 // series of the successful rounds, by round; nil if a round has none
	failed   map[int]string                    // errors of the failed rounds, by round
	absent   string                            // reason why there was no round; may be empty
	warnings []string                          // warnings of all rounds, without repeats
}

// arrange sorts lines into scenarios. The figures of a scenario are from the latest run with this
// scenario. Figures of different runs are not comparable, because only within a run did the
// contenders take turns.
func (r *Report) arrange(lines []record.Line) {
	r.of = make(map[string]*scenario)
	for _, l := range lines {
		r.addRun(l)
		if l.Scenario.Name == "" {
			r.addAbsence(l)
			continue
		}
		s := r.of[l.Scenario.Name]
		if s == nil || s.began < l.Run {
			s = &scenario{Scenario: l.Scenario, began: l.Run, of: make(map[string]*cell)}
			r.of[s.Name] = s
		}
		if s.began == l.Run {
			s.add(l)
		}
	}
	r.order = inOrder(lines)
	slices.SortFunc(r.runs, func(a, b run) int { return cmp.Compare(a.began, b.began) })
	for _, s := range r.of {
		r.runOf(s.began).scenarios++
	}
	r.runs = slices.DeleteFunc(r.runs, func(u run) bool { return u.scenarios == 0 && len(r.of) > 0 })
}

// inOrder returns the names of the scenarios in the order in which they were first measured,
// followed by the scenarios that were never measured. Lines about contenders that are not tried do
// not count, because they come first in a run and say nothing about the order.
func inOrder(lines []record.Line) []string {
	var names []string
	for _, measured := range []bool{true, false} {
		for _, l := range lines {
			if name := l.Scenario.Name; (l.Round >= 0) == measured && name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (r *Report) runOf(began string) *run {
	i := slices.IndexFunc(r.runs, func(u run) bool { return u.began == began })
	if i < 0 {
		return nil
	}
	return &r.runs[i]
}

// protocols holds the names, for people, of the protocols other than TFTP.
var protocols = map[string]string{record.SFTP: "SFTP", record.TCP: "TCP"}

func (r *Report) addRun(l record.Line) {
	u := r.runOf(l.Run)
	if u == nil {
		r.runs = append(r.runs, run{Environment: l.Environment, began: l.Run, versions: make(map[string]record.Contender)})
		u = &r.runs[len(r.runs)-1]
	}
	u.rounds = max(u.rounds, l.Round+1)
	if c := l.Contender; l.Round >= 0 {
		if c.Client != "" && c.Server == "" { // the client does not belong to the version of a server
			c.Client = ""
		}
		name := nameOf(c)
		if of := protocols[l.Scenario.Protocol]; of != "" && name == "haul" { // because a TFTP server has the name haul too
			name += " (" + of + ")"
		}
		if known, ok := u.versions[name]; !ok || known.Note == "" {
			u.versions[name] = c
		}
	}
}

func (r *Report) addAbsence(l record.Line) {
	a := absence{l.Contender.Name, l.Absent}
	if l.Absent != "" && !slices.Contains(r.absent, a) {
		r.absent = append(r.absent, a)
	}
}

func (s *scenario) add(l record.Line) {
	name := nameOf(l.Contender)
	c := s.of[name]
	if c == nil {
		c = &cell{Contender: l.Contender, rounds: make(map[int]map[record.Metric]float64), series: make(map[int][]float64), failed: make(map[int]string)}
		s.of[name] = c
	}
	for _, w := range l.Warnings {
		if !slices.Contains(c.warnings, w) {
			c.warnings = append(c.warnings, w)
		}
	}
	if l.Absent != "" {
		if len(c.rounds)+len(c.failed) == 0 {
			c.absent = l.Absent
		}
		return
	}
	// If a run was made in parts, a round that was cut off appears twice. The second one counts,
	// because all contenders took part in it.
	c.absent = ""
	delete(c.rounds, l.Round)
	delete(c.failed, l.Round)
	if l.Error != "" {
		c.failed[l.Round] = l.Error
	} else {
		c.rounds[l.Round], c.series[l.Round] = measured(l.Figures), l.Series
	}
}

// nameOf returns the name of a contender for tables: for a client, it includes a server other than
// haul.
func nameOf(c record.Contender) string {
	if c.Server == "" || c.Server == "haul" {
		return c.Name
	}
	return c.Name + " from " + c.Server
}

// get returns a contender's cell in a scenario, or nil if there are no results.
func (r *Report) get(scenario, contender string) *cell {
	if s := r.of[scenario]; s != nil {
		return s.of[contender]
	}
	return nil
}

// group returns the scenarios of a group in the order in which they were measured.
func (r *Report) group(name string) []*scenario {
	var all []*scenario
	for _, n := range r.order {
		if s := r.of[n]; s.Group == name {
			all = append(all, s)
		}
	}
	return all
}

// contenders returns the names of the contenders in any of the scenarios: haul first, then the
// peers, then the floors.
func contenders(all ...*scenario) []string {
	var names []string
	for _, s := range all {
		for name := range s.of {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
	return names
}

func rank(name string) int {
	switch {
	case isHaul(name):
		return 0
	case isFloor(name):
		return 2
	}
	return 1
}

func isHaul(name string) bool {
	return name == "haul" || strings.HasPrefix(name, "haul ") || strings.HasPrefix(name, "haul,")
}

// twoSided reports whether a contender is an SFTP client with a server of its own kind. Such a
// contender is not compared with clients of a stock server.
func twoSided(name string) bool { return strings.Contains(name, " to ") }

func isFloor(name string) bool { return strings.HasPrefix(name, "floor-") }
func isPeer(name string) bool  { return rank(name) == 1 }
