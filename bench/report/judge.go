package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// A Verdict says whether a goal was reached.
type Verdict struct {
	Goal
	Reached Kind    // Reached, Missed or Unknown
	Figure  float64 // the worst figure of the scenarios; NaN if nothing was measured
	Where   string  // scenario of that figure, and the rival
	Why     string  // reason why the verdict is unknown, or why the figure does not count
}

// Judge returns a verdict for each goal. A goal is missed if the figure of any of its scenarios
// misses it. It is reached only if all of its scenarios were measured.
func (r *Report) Judge(goals []Goal) []Verdict {
	var all []Verdict
	for _, g := range goals {
		if g.Contender == "" {
			g.Contender = "haul"
		}
		all = append(all, r.judge(g))
	}
	return all
}

func (r *Report) judge(g Goal) Verdict {
	v := Verdict{Goal: g, Reached: Reached, Figure: math.NaN()}
	var unknown notes
	var faults []string
	missing := r.missing(g.Scenarios)
	for _, name := range g.Scenarios {
		if slices.Contains(missing, name) {
			continue
		}
		f, against, why := r.compare(g, name)
		if !finite(f) {
			unknown.say("", name, why)
			continue
		}
		if !finite(v.Figure) || worse(g.Sense, f, v.Figure) {
			v.Figure, v.Where = f, name+against
		}
		if fault := r.fault(g, name); fault != "" {
			faults = append(faults, name+": "+fault)
		}
	}
	switch {
	case finite(v.Figure) && !g.Sense.holds(v.Figure, g.Limit), len(faults) > 0:
		v.Reached, v.Why = Missed, strings.Join(faults, "; ")
	case len(missing)+len(unknown.said) > 0:
		v.Reached, v.Why = Unknown, joined(notMeasured(len(missing), len(g.Scenarios)), unknown.reasons())
	}
	return v
}

// missing returns the names of the scenarios that were not measured.
func (r *Report) missing(names []string) []string {
	var some []string
	for _, name := range names {
		if r.of[name] == nil && !slices.Contains(some, name) {
			some = append(some, name)
		}
	}
	return some
}

// notMeasured returns a text that says how many of a goal's scenarios were not measured: n of `of`.
// It returns "" if all were measured.
func notMeasured(n, of int) string {
	switch n {
	case 0:
		return ""
	case of:
		return "not measured"
	}
	return fmt.Sprintf("not measured: %d of its %d scenarios", n, of)
}

// worse reports whether the figure a is worse than b for a goal with the given sense.
func worse(s sense, a, b float64) bool {
	if s == atLeast {
		return a < b
	}
	return a > b
}

// fault returns the reason why a measured figure does not count, or "": a contender that fails a
// part of the load, or some of the rounds, has not served the load.
func (r *Report) fault(g Goal, name string) string {
	c := r.get(name, g.Contender)
	if len(c.failed) > 0 || !c.served() {
		return strings.Join(c.flaws(), "; ")
	}
	return ""
}

// compare returns the figure for a goal in one scenario, and a text about the rival. If there is no
// figure, f is NaN, and `why` is the reason.
func (r *Report) compare(g Goal, name string) (f float64, against, why string) {
	mine := r.get(name, g.Contender)
	if !finite(mine.median(g.Metric)) {
		return math.NaN(), "", g.Contender + " " + shorten(mine.lacking(g.Metric))
	}
	switch g.Rival.kind {
	case bestPeer:
		return r.againstPeers(g, name, mine)
	case contender:
		return r.againstOne(g, name, mine)
	case lossless:
		return r.againstScenario(g, mine, strings.Replace(name, "+loss", "", 1))
	case bestCell:
		return r.againstBest(g, mine)
	case modelBound:
		least := r.sftpBound(r.of[name]).Seconds()
		return mine.median(g.Metric) / least, fmt.Sprintf(": %s of %s s", figure(mine.median(g.Metric)), figure(least)), ""
	case inScenario:
		return r.againstScenario(g, mine, g.Rival.name)
	}
	if g.Metric == record.Failed {
		return mine.sum(g.Metric), "", ""
	}
	return mine.median(g.Metric), "", ""
}

func (r *Report) againstOne(g Goal, name string, mine *cell) (float64, string, string) {
	other := r.get(name, g.Rival.name)
	f := judged(mine, other, g.Metric)
	switch n := len(ratios(mine, other, g.Metric)); {
	case finite(f):
		return f, r.pair(g, mine, other, g.Rival.name), ""
	case n > 0:
		return f, "", fmt.Sprintf("compared with %s in %s only", g.Rival.name, count(n, "round"))
	}
	return f, "", g.Rival.name + " " + shorten(other.lacking(g.Metric))
}

// leastRounds is the minimum number of rounds for a ratio in a verdict.
const leastRounds = 3

// judged is like ratio, but returns NaN if there are too few rounds for a verdict.
func judged(a, b *cell, m record.Metric) float64 {
	if len(ratios(a, b, m)) < leastRounds {
		return math.NaN()
	}
	return ratio(a, b, m)
}

// againstPeers compares a contender with the peer for which the ratio is worst.
func (r *Report) againstPeers(g Goal, name string, mine *cell) (float64, string, string) {
	who, f := r.worstPeer(g, name, mine)
	if who == "" {
		return f, "", fmt.Sprintf("no peer did it in %d rounds", leastRounds)
	}
	return f, r.pair(g, mine, r.get(name, who), who), ""
}

// worstPeer returns the name of the peer for which a contender's ratio is worst, among the peers
// that did the work, and the ratio. If no peer did the work, it returns "" and NaN.
func (r *Report) worstPeer(g Goal, name string, mine *cell) (string, float64) {
	who, worst := "", math.NaN()
	for _, peer := range r.peersOf(name, g.Contender) {
		f := judged(mine, r.get(name, peer), g.Metric)
		if finite(f) && (who == "" || worse(g.Sense, f, worst)) {
			who, worst = peer, f
		}
	}
	return who, worst
}

// peersOf returns the names of the peers in a scenario with which a contender is compared. These
// peers did the work.
func (r *Report) peersOf(scenario, contender string) []string {
	s := r.of[scenario]
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(contenders(s), func(peer string) bool {
		return !isPeer(peer) || !s.of[peer].served() || twoSided(peer) && !twoSided(contender)
	})
}

// againstScenario compares the contender's median in `mine` with its median in the scenario `name`.
// It uses no ratios of rounds, because two scenarios have no rounds in common.
func (r *Report) againstScenario(g Goal, mine *cell, name string) (float64, string, string) {
	other := r.get(name, g.Contender)
	f := mine.median(g.Metric) / other.median(g.Metric)
	if !finite(f) {
		return math.NaN(), "", "nothing to compare with was measured"
	}
	if n := min(len(mine.values(g.Metric)), len(other.values(g.Metric))); n < leastRounds {
		return math.NaN(), "", fmt.Sprintf("compared with %s in %s only", name, count(n, "round"))
	}
	return f, r.pair(g, mine, other, name), ""
}

// againstBest compares the contender's figure with its best figure in the scenarios Rival.among.
// The best figure is known only if all of these were measured.
func (r *Report) againstBest(g Goal, mine *cell) (float64, string, string) {
	best, name := math.NaN(), ""
	for _, n := range g.Rival.among {
		f := r.get(n, g.Contender).median(g.Metric)
		if finite(f) && (name == "" || worse(g.Sense, best, f)) {
			best, name = f, n
		}
	}
	if n := len(r.missing(g.Rival.among)); n > 0 {
		return math.NaN(), "", fmt.Sprintf("%d of the %d to compare with not measured", n, len(g.Rival.among))
	}
	return r.againstScenario(g, mine, name)
}

func (r *Report) pair(g Goal, mine, other *cell, name string) string {
	u := unitOf(g.Metric)
	return fmt.Sprintf(": %s to %s %s of %s", u.show(mine.median(g.Metric)), u.show(other.median(g.Metric)), u.short, name)
}

// wanted returns the goal's sense and limit as a text, such as "at most 1.50 x".
func (g Goal) wanted() string { return fmt.Sprintf("%s %s", g.Sense, g.number(g.Limit)) }

func (g Goal) number(f float64) string {
	switch g.Rival.kind {
	case nobody:
		return unitOf(g.Metric).show(f)
	case shareOfSelf:
		return percent(f)
	}
	return times(f)
}

const verdictHead = "reached"

// fewRounds is the smallest number of rounds on which a verdict should be based.
const fewRounds = 5

// goalSection returns the section with the verdicts on all goals. Goals without any measurement are
// only counted, because after a short run they would fill most of the table.
func (r *Report) goalSection() Section {
	t := Table{Name: "goals", Head: []string{"goal", "for", "wanted", verdictHead, "figure", "where, and why"}, Prose: true}
	reached, missed, left := 0, 0, 0
	var about []string // names of the scenarios of all goals
	for _, v := range r.Judge(Goals()) {
		about = append(append(about, v.Scenarios...), v.Rival.among...)
		if !slices.ContainsFunc(v.Scenarios, func(name string) bool { return r.get(name, v.Contender) != nil }) {
			left++
			continue
		}
		said := string(v.Reached)
		switch v.Reached {
		case Reached:
			reached++
		case Missed:
			missed++
		}
		title := v.Title
		if v.Contender != "haul" {
			title += " (" + v.Contender + ")"
		}
		t.Rows = append(t.Rows, Row{Kind: v.Reached, Cells: []string{
			title, v.Source, v.wanted(), said, v.number(v.Figure), joined(v.Where, v.Why),
		}})
	}
	if n := r.fewestRounds(); n < fewRounds {
		t.Notes = append(t.Notes, fmt.Sprintf("Some figures rest on %s only; five are the least for a verdict.", count(n, "round")))
	}
	s := Section{
		Name: "goals", Title: "Goals",
		Intro: fmt.Sprintf("%d reached, %d missed, %d unknown. The figure is that of the worst scenario; "+
			"\"x\" is haul's figure divided by the other one. A peer that fails more than %s of its transfers is not compared with, and a ratio needs %d rounds.",
			reached, missed, len(t.Rows)-reached-missed, percent(mayFail), leastRounds),
		Tables:  []Table{t},
		Missing: r.missing(about),
	}
	if left > 0 {
		s.Intro += fmt.Sprintf(" Left out: %s of which nothing was measured.", count(left, "goal"))
	}
	return s
}

// joined joins the texts that are not empty, with semicolons.
func joined(texts ...string) string {
	var some []string
	for _, t := range texts {
		if t != "" {
			some = append(some, t)
		}
	}
	return strings.Join(some, "; ")
}

// fewestRounds returns the smallest number of rounds from which any figure was computed, but at
// most fewRounds.
func (r *Report) fewestRounds() int {
	fewest := fewRounds
	for _, s := range r.of {
		for _, c := range s.of {
			if n := len(c.rounds); n > 0 {
				fewest = min(fewest, n)
			}
		}
	}
	return fewest
}
