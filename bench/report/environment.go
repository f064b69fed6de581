package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// environment returns the section that describes where, with which programs and how the figures
// were measured.
func (r *Report) environment() Section {
	s := Section{Name: "environment", Title: "What was measured", Intro: r.method()}
	s.Tables = append(s.Tables, r.machines(), r.versions())
	if t := r.notThere(); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	return s
}

func (r *Report) method() string {
	rounds := 0
	for _, u := range r.runs {
		rounds = max(rounds, u.rounds)
	}
	return fmt.Sprintf("%s in up to %s. In each round every contender gets the scenario once, each round in another order, after a warm-up that is not counted. "+
		"Figures are medians over the rounds; \"haul to it\" is the median of the ratios of each round. "+
		"CPU time is user and system time of the server and all of its children, from its control group where one can be made. "+
		"Clients, server and any emulated link share the machine's cores.", count(len(r.of), "scenario"), count(rounds, "round"))
}

func (r *Report) machines() Table {
	t := Table{Name: "machine", Caption: "Runs", Prose: true,
		Head:  []string{"began", "commit", "processor", "cores", "memory", "kernel", "Go", "TCP congestion control", "file system", "rounds", "scenarios from it"},
		Notes: r.remarks}
	for _, u := range r.runs {
		t.Rows = append(t.Rows, Row{Cells: []string{
			u.began, u.Commit, u.Machine, strconv.Itoa(u.Cores), figure(float64(u.MemoryMB)/1e3) + " GB", u.Kernel, u.Go,
			u.Congestion, u.Storage, strconv.Itoa(u.rounds), strconv.Itoa(u.scenarios),
		}})
	}
	if len(r.runs) > 1 {
		t.Notes = append(slices.Clip(t.Notes),
			"Each scenario's figures are from the latest run that has it; figures of different runs do not compare exactly.")
	}
	return t
}

// versions returns a table of the contenders, with their versions and notes from the latest run
// that has them.
func (r *Report) versions() Table {
	t := Table{Name: "contenders", Caption: "Contenders", Prose: true, Head: []string{"name", "version", "to be known"}}
	latest := make(map[string]record.Contender)
	var names []string
	for _, u := range r.runs {
		for name, c := range u.versions {
			if _, ok := latest[name]; !ok {
				names = append(names, name)
			}
			latest[name] = c
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		c := latest[name]
		t.add(name, cmp.Or(c.Version, none), c.Note)
	}
	return t
}

// notThere returns a table of the absent contenders, and of contenders that were not tried in a
// scenario, with the reasons.
func (r *Report) notThere() Table {
	t := Table{Name: "absent", Caption: "Absent", Prose: true, Head: []string{"name", "where", "why"}}
	for _, a := range r.absent {
		t.add(a.name, "everywhere", shorten(a.why))
	}
	var n notes
	for _, name := range r.order {
		for _, who := range contenders(r.of[name]) {
			if c := r.of[name].of[who]; c.absent != "" {
				n.say(who, name, c.absent)
			}
		}
	}
	for _, s := range n.said {
		t.add(s.who, strings.Join(s.where, ", "), s.why)
	}
	return t
}

// warnings returns a table of the suite's warnings and errors about single measurements.
func (r *Report) warnings() Table {
	t := Table{Name: "warnings", Caption: "Warnings and errors", Prose: true, Head: []string{"contender", "where", "what"}}
	var n notes
	for _, name := range r.order {
		for _, who := range contenders(r.of[name]) {
			c := r.of[name].of[who]
			for _, w := range c.warnings {
				n.say(who, name, w)
			}
			for _, e := range c.errors() {
				n.say(who, name, e)
			}
		}
	}
	for _, s := range n.said {
		t.add(s.who, strings.Join(s.where, ", "), s.why)
	}
	return t
}

// everything returns a table of each contender in each scenario, with the spread of the figures,
// for readers who want to know how certain a figure is.
func (r *Report) everything() Table {
	t := Table{Name: "all", Caption: "Each scenario: median, from the least to the most, and in brackets the middle half of the rounds", Words: 2,
		Head: []string{"scenario", "contender", "rounds", "MB/s", "spread", "us/packet", "spread", "haul to it, MB/s", "us/packet", "failed", "generator CPU", "link CPU"}}
	for _, name := range r.order {
		for _, who := range contenders(r.of[name]) {
			c := r.of[name].of[who]
			rate, cpu := c.spread(record.Rate), c.spread(record.CPUPerPacket)
			t.add(name, who, strconv.Itoa(len(c.rounds)),
				figure(rate.Median), rate.String(), figure(cpu.Median), cpu.String(),
				r.versus(name, who, record.Rate), r.versus(name, who, record.CPUPerPacket),
				whole(c.sum(record.Failed)), percent(c.median(record.GeneratorCPU)), percent(c.median(record.LinkCPU)))
			if isHaul(who) {
				t.Rows[len(t.Rows)-1].Kind = Ours
			}
		}
	}
	return t
}

// String returns the range of the values and of their middle half, in the form "1 to 4 [2 to 3]".
func (s Spread) String() string {
	if s.N < 2 {
		return none
	}
	return fmt.Sprintf("%s to %s [%s to %s]", figure(s.Min), figure(s.Max), figure(s.Q1), figure(s.Q3))
}

// appendix returns the section for the few readers who want to see all figures and warnings.
func (r *Report) appendix() Section {
	s := Section{Name: "appendix", Title: "Every figure, and every warning", Tables: []Table{r.everything()}}
	if t := r.everythingTCP(); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	if t := r.warnings(); len(t.Rows) > 0 {
		s.Tables = append(s.Tables, t)
	}
	return s
}
