// Package guard compares two builds of haul by the results of a run in which they alternated, and
// names the figures that have changed beyond the noise.
//
// Five rounds are few, and other work on the machine disturbs some of them. The distribution of
// the noise is unknown, but in each round it affects either build with the same chance, because
// they alternate in which is first. So this is a sign test of pairs. A figure is suspicious if
// one build had the better one in each of [Rounds] rounds, and the median change is at least
// [LeastChange]. Between equal builds that happens to one figure in 16, so loads with a
// suspicious figure get more rounds, [MoreRounds] in all. The figure has changed if the same
// build had the better one in these as well: between equal builds, that happens to one figure in
// 2048, and so in one run in 57 with its three dozen figures. In half of these cases the guard
// fails.
//
// The guard does not notice a change that is smaller than the noise of single rounds. Package
// internal/instructions of haul counts instructions, which have no noise.
package guard

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/haul-project/haul/bench/report"
	"github.com/haul-project/haul/bench/suite"
	"github.com/haul-project/haul/bench/suite/record"
)

const (
	Rounds      = 5    // number of rounds of every load
	MoreRounds  = 12   // total number of rounds of a load with a suspicious figure
	LeastChange = 0.03 // smallest change of the median that is reported, as a fraction
)

// A Verdict is the conclusion from the rounds.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota // there were too few rounds
	Same
	PerhapsBetter // probably better, but more rounds are needed
	PerhapsWorse  // probably worse, but more rounds are needed
	Better
	Worse
)

// String returns the text for the table. For Same, the usual verdict, it is empty.
func (v Verdict) String() string {
	return [...]string{"not compared", "", "not certain, better", "not certain, worse", "better", "WORSE"}[v]
}

// A Figure is a metric of a load, for both builds.
type Figure struct {
	Load, Name  string
	Before, Now float64   // medians over the rounds, of the build before and of the build now
	Changes     []float64 // change in each round, as a fraction of the figure before
	cost        bool      // smaller figures are better
}

// Change returns the median change of the rounds, or NaN before the first round.
func (f *Figure) Change() float64 { return report.Median(f.Changes) }

// Verdict judges a figure.
func (f *Figure) Verdict() Verdict {
	up, down := 0, 0
	for _, c := range f.Changes {
		switch {
		case c > 0:
			up++
		case c < 0:
			down++
		}
	}
	n := len(f.Changes)
	worse := (up == n) == f.cost
	switch {
	case n < Rounds:
		return Unknown
	case max(up, down) < n || math.Abs(f.Change()) < LeastChange:
		return Same
	case n < MoreRounds && worse:
		return PerhapsWorse
	case n < MoreRounds:
		return PerhapsBetter
	case worse:
		return Worse
	}
	return Better
}

// A kind is a metric with its name in the table. The figure of a load is the first kind of a list
// that the lines of the load contain.
type kind struct {
	metric record.Metric
	name   string
}

var (
	speeds = []kind{{record.RequestRate, "requests/s"}, {record.FileRate, "files/s"}, {record.Rate, "MB/s"}}
	server = []kind{{record.CPUPerPacket, "server us/packet"}, {record.CPUPerRequest, "server us/request"}, {record.CPUPerGB, "server s/GB"}}
	client = []kind{{record.ClientCPUPerGB, "client s/GB"}}
)

// Compare returns the figures of some loads from their lines. A load without lines has figures
// with the verdict Unknown.
func Compare(loads []suite.Scenario, lines []record.Line) []Figure {
	var all []Figure
	for _, load := range loads {
		rounds := pairs(lines, load.Name)
		all = append(all, figure(rounds, load.Name, speeds, false), figure(rounds, load.Name, server, true))
		if load.Protocol == record.SFTP { // haul is the client as well as the server
			all = append(all, figure(rounds, load.Name, client, true))
		}
	}
	return all
}

// A pair is a round of a load in which both builds were measured.
type pair struct{ before, now map[record.Metric]float64 }

func pairs(lines []record.Line, load string) []pair {
	byRound := make(map[int]*pair)
	var order []int
	for _, l := range lines {
		if l.Scenario.Name != load || l.Round < 0 || suite.Sane(l) != nil {
			continue
		}
		p := byRound[l.Round]
		if p == nil {
			p = new(pair)
			byRound[l.Round] = p
			order = append(order, l.Round)
		}
		if suite.IsBefore(l.Contender) {
			p.before = l.Figures
		} else {
			p.now = l.Figures
		}
	}
	var all []pair
	for _, round := range order {
		if p := byRound[round]; p.before != nil && p.now != nil {
			all = append(all, *p)
		}
	}
	return all
}

// figure compares the two builds by the first of the kinds that the rounds contain.
func figure(rounds []pair, load string, kinds []kind, cost bool) Figure {
	f := Figure{Load: load, Name: kinds[len(kinds)-1].name, cost: cost}
	var before, now []float64
	for _, k := range kinds {
		for _, p := range rounds {
			if b, n := p.before[k.metric], p.now[k.metric]; b > 0 && n > 0 {
				before, now = append(before, b), append(now, n)
				f.Changes = append(f.Changes, n/b-1)
			}
		}
		if len(before) > 0 {
			f.Name = k.name
			break
		}
	}
	f.Before, f.Now = report.Median(before), report.Median(now)
	return f
}

// Suspects returns the names of the loads that need more rounds.
func Suspects(figures []Figure) []string {
	var all []string
	for i := range figures {
		f := &figures[i]
		if v := f.Verdict(); (v == PerhapsBetter || v == PerhapsWorse) && !slices.Contains(all, f.Load) {
			all = append(all, f.Load)
		}
	}
	return all
}

// Named returns texts about the figures that have the verdict v, such as "many-100-1MB: server
// us/packet +8.1 %".
func Named(figures []Figure, v Verdict) []string {
	var all []string
	for i := range figures {
		if f := &figures[i]; f.Verdict() == v {
			all = append(all, fmt.Sprintf("%s: %s %s", f.Load, f.Name, percent(f.Change())))
		}
	}
	return all
}

// Print prints figures as a table.
func Print(out io.Writer, figures []Figure) error {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LOAD\tFIGURE\tBEFORE\tNOW\tCHANGE\tROUNDS\tVERDICT")
	last := ""
	for i := range figures {
		f := &figures[i]
		load := f.Load
		if load == last {
			load = ""
		}
		last = f.Load
		cells := []string{load, f.Name, "", "", "", "", f.Verdict().String()}
		if s := report.SpreadOf(f.Changes); s.N > 0 {
			cells = []string{load, f.Name, fmt.Sprintf("%.4g", f.Before), fmt.Sprintf("%.4g", f.Now), percent(s.Median),
				fmt.Sprintf("%d, %s to %s", s.N, percent(s.Min), percent(s.Max)), f.Verdict().String()}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(table.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

func percent(change float64) string { return fmt.Sprintf("%+.1f %%", 100*change) }
