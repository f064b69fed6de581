package report

import (
	"math"
	"slices"
	"testing"

	"github.com/haul-project/haul/bench/suite"
	"github.com/haul-project/haul/bench/suite/record"
)

func TestVerdicts(t *testing.T) {
	nan := math.NaN()
	best, named := rival{kind: bestPeer}, rival{kind: contender, name: "x"}
	type figures = map[string][]float64
	for _, c := range []struct {
		name    string
		figures figures
		rival   rival
		sense   sense
		limit   float64
		want    Kind
		figure  float64
	}{
		{"at the limit", figures{"haul": {2}, "x": {2}}, named, atMost, 1, Reached, 1},
		{"at the limit is not below it", figures{"haul": {2}, "x": {2}}, named, below, 1, Missed, 1},
		{"over the limit", figures{"haul": {3}, "x": {2}}, named, atMost, 1.15, Missed, 1.5},
		{"high enough", figures{"haul": {5}, "x": {2}}, named, atLeast, 2.5, Reached, 2.5},
		{"an absolute figure", figures{"haul": {63}}, rival{}, below, 64, Reached, 63},
		{"the best of the peers, where less is better", figures{"haul": {2}, "x": {4}, "y": {1}}, best, atMost, 1, Missed, 2},
		{"the best of the peers, where more is better", figures{"haul": {2}, "x": {4}, "y": {1}}, best, atLeast, 1, Missed, 0.5},
		{"floors and other hauls are no peers", figures{"haul": {2}, "floor-64": {1}, "haul before": {1}, "x": {4}}, best, below, 1, Reached, 0.5},
		{"a peer that failed is none", figures{"haul": {2}, "x": {nan}}, best, below, 1, Unknown, nan},
		{"no such rival", figures{"haul": {2}}, named, below, 1, Unknown, nan},
		{"haul failed", figures{"haul": {nan}, "x": {1}}, named, below, 1, Unknown, nan},
		{"haul failed in one of the rounds", figures{"haul": {1, nan}, "x": {2, 2}}, named, below, 1, Missed, 0.5},
	} {
		for name, rounds := range c.figures {
			c.figures[name] = slices.Repeat(rounds, leastRounds)
		}
		r := one("s", record.Seconds, c.figures)
		g := Goal{Scenarios: []string{"s"}, Metric: record.Seconds, Rival: c.rival, Sense: c.sense, Limit: c.limit}
		v := r.Judge([]Goal{g})[0]
		if v.Reached != c.want || v.Figure != c.figure && !(math.IsNaN(v.Figure) && math.IsNaN(c.figure)) {
			t.Errorf("%s: %s with %v, want %s with %v", c.name, v.Reached, v.Figure, c.want, c.figure)
		}
	}
}

// inRounds returns lines for the number of rounds that a verdict needs.
func inRounds(lines []record.Line) (all []record.Line) {
	for round := range leastRounds {
		for _, l := range lines {
			l.Round = round
			all = append(all, l)
		}
	}
	return all
}

// A ratio of fewer than leastRounds rounds gives no verdict, for any comparison. A round in which
// the server's meter counted nothing does not have the meter's figures.
func TestFewRoundsAreNoVerdict(t *testing.T) {
	for _, c := range []struct {
		name  string
		rival rival
		fails int // rounds in which the meter of the compared contender counts nothing
		want  Kind
		why   string
	}{
		{"enough rounds", rival{kind: contender, name: "x"}, 2, Reached, ""},
		{"one contender", rival{kind: contender, name: "x"}, 3, Unknown, "compared with x in 2 rounds only: s"},
		{"the peers", rival{kind: bestPeer}, 3, Unknown, "no peer did it in 3 rounds: s"},
		{"another scenario", rival{kind: inScenario, name: "t"}, 3, Unknown, "compared with t in 2 rounds only: s"},
		{"no rounds", rival{kind: contender, name: "x"}, 5, Unknown, "x server CPU for a GB was not measured: s"},
	} {
		var lines []record.Line
		for round := range 5 {
			for _, l := range []struct {
				scenario, name string
				cpu            float64
			}{{"s", "haul", 1}, {"s", "x", 2}, {"t", "haul", 2}} {
				f := map[record.Metric]float64{record.ServerCPU: l.cpu, record.CPUPerGB: l.cpu, record.Memory: 5}
				if round < c.fails && l.cpu == 2 {
					f = map[record.Metric]float64{record.ServerCPU: 0, record.CPUPerGB: 0, record.Memory: 1}
				}
				lines = append(lines, record.Line{Run: "r", Round: round, Scenario: record.Scenario{Name: l.scenario}, Contender: record.Contender{Name: l.name}, Figures: f})
			}
		}
		r := &Report{}
		r.arrange(lines)
		goal := Goal{Scenarios: []string{"s"}, Metric: record.CPUPerGB, Rival: c.rival, Sense: below, Limit: 1}
		if v := r.Judge([]Goal{goal})[0]; v.Reached != c.want || v.Why != c.why {
			t.Errorf("%s: %s (%s), want %s (%s)", c.name, v.Reached, v.Why, c.want, c.why)
		}
		if m := r.get("s", "x").median(record.Memory); c.fails < 5 && m != 5 {
			t.Errorf("%s: the memory is %v, with rounds in which it was not metered", c.name, m)
		}
	}
}

// A contender that fails transfers has time for the others: neither haul nor a peer may benefit
// from that.
func TestFailingIsNotFast(t *testing.T) {
	lines := func(haulFails, peerFails float64) *Report {
		var all []record.Line
		for name, f := range map[string][2]float64{"haul": {2, haulFails}, "x": {1, peerFails}, "y": {4, 0}} {
			all = append(all, record.Line{Run: "r", Scenario: record.Scenario{Name: "s"}, Contender: record.Contender{Name: name},
				Figures: map[record.Metric]float64{record.Seconds: f[0], record.Transfers: 100, record.Failed: f[1]}})
		}
		r := &Report{}
		r.arrange(inRounds(all))
		return r
	}
	goal := Goal{Scenarios: []string{"s"}, Metric: record.Seconds, Rival: rival{kind: bestPeer}, Sense: below, Limit: 1}
	for _, c := range []struct {
		haulFails, peerFails float64
		want                 Kind
	}{
		{0, 0, Missed},   // x is faster
		{0, 1, Missed},   // and may fail one in a hundred
		{0, 2, Reached},  // but not two
		{50, 50, Missed}, // and haul must not fail half
	} {
		if v := lines(c.haulFails, c.peerFails).Judge([]Goal{goal})[0]; v.Reached != c.want {
			t.Errorf("%+v: %s", c, v.Reached)
		}
	}
}

func TestGoalNeedsAllItsScenarios(t *testing.T) {
	r := one("s", record.Rate, map[string][]float64{"haul": {5}})
	g := Goal{Scenarios: []string{"s", "t"}, Metric: record.Rate, Sense: atLeast, Limit: 4}
	if v := r.Judge([]Goal{g})[0]; v.Reached != Unknown || v.Figure != 5 || v.Why != "not measured: 1 of its 2 scenarios" {
		t.Errorf("half of it was measured: %+v", v)
	}
	g.Limit = 6
	if v := r.Judge([]Goal{g})[0]; v.Reached != Missed {
		t.Errorf("one of them misses it: %+v", v)
	}
}

func TestComparedAcrossScenarios(t *testing.T) {
	r := &Report{}
	var lines []record.Line
	for name, f := range map[string]float64{"l-w1": 10, "l-w2": 20, "l+loss-w2": 15, "l-untuned": 19} {
		lines = append(lines, record.Line{Run: "r", Scenario: record.Scenario{Name: name}, Contender: record.Contender{Name: "haul"},
			Figures: map[record.Metric]float64{record.Rate: f}})
	}
	r.arrange(inRounds(lines))
	goal := func(scenario string, to rival) Goal {
		return Goal{Scenarios: []string{scenario}, Metric: record.Rate, Rival: to, Sense: atLeast, Limit: 0.97}
	}
	for _, c := range []struct {
		goal Goal
		want float64
	}{
		{goal("l+loss-w2", rival{kind: lossless}), 0.75},
		{goal("l-untuned", rival{kind: bestCell, among: []string{"l-w1", "l-w2"}}), 0.95},
	} {
		if v := r.Judge([]Goal{c.goal})[0]; v.Reached != Missed || v.Figure != c.want {
			t.Errorf("%+v: want %v", v, c.want)
		}
	}
	v := r.Judge([]Goal{goal("l-untuned", rival{kind: bestCell, among: []string{"l-w1", "l-w4"}})})[0]
	if v.Reached != Unknown {
		t.Errorf("the best of some that were not measured: %+v", v)
	}
}

// A goal for a scenario that no run makes would always be "not measured".
func TestGoalsAreOfScenariosThatExist(t *testing.T) {
	var known []string
	for _, s := range suite.Full() {
		known = append(known, s.Name)
	}
	check := func(what, name string) {
		if !slices.Contains(known, name) {
			t.Errorf("%q is about the scenario %q, which the suite does not have", what, name)
		}
	}
	for _, g := range Goals() {
		for _, name := range append(g.Scenarios, g.Rival.among...) {
			check(g.Title, name)
		}
	}
	for _, h := range slices.Concat(headlines, sftpHeadlines, tcpHeadlines) {
		check(h.title, h.scenario)
	}
}
