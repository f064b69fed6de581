package suite

import (
	"fmt"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// past has the measurements of earlier parts of a run. The zero value is for a run that begins.
type past struct {
	began     string
	lines     map[turn]record.Line
	scenarios map[string]record.Scenario // measured scenarios, without seeds
	last      int                        // the highest round
}

// A turn identifies what one line of a run measures.
type turn struct {
	scenario, contender, server string
	round                       int
}

// resumed returns the latest run in lines, or, if it was not made in this environment, the reason
// why nothing of it counts. Earlier runs never count: a report takes a scenario from the latest
// run that has it.
func resumed(lines []record.Line, here record.Environment) (p past, why string) {
	latest := ""
	var there record.Environment
	for _, l := range lines {
		if l.Run > latest {
			latest, there = l.Run, l.Environment
		}
	}
	if latest == "" {
		return past{}, ""
	}
	if other := differences(there, here); other != "" {
		return past{}, other
	}
	p = past{began: latest, lines: make(map[turn]record.Line), scenarios: make(map[string]record.Scenario)}
	for _, l := range lines {
		if l.Run != latest {
			continue
		}
		p.lines[turn{l.Scenario.Name, l.Contender.Name, l.Contender.Server, l.Round}] = l
		if l.Round >= 0 {
			p.scenarios[l.Scenario.Name] = seedless(l.Scenario)
			p.last = max(p.last, l.Round)
		}
	}
	return p, ""
}

// seedless returns a scenario without its seed, which follows from the round.
func seedless(sc record.Scenario) record.Scenario {
	sc.Seed = 0
	return sc
}

// conflict returns what differs between a scenario and the same one in the earlier run: another
// scenario with the same name, as in quick runs, or another build of a contender. One run would
// show them as the same.
func (p past) conflict(sc Scenario, turns []contender) string {
	known, ok := p.scenarios[sc.Name]
	if !ok {
		return ""
	}
	if known != seedless(sc.Scenario) {
		return fmt.Sprintf("%s as %q, and not as %q", sc.Name, known.Title, sc.Title)
	}
	for _, c := range turns {
		for round := range p.last + 1 {
			l, ok := p.lines[turn{sc.Name, c.Name, c.Server, round}]
			if ok && l.Contender != c.Contender {
				return fmt.Sprintf("another %s (version %q, build %q, and not %q, %q)", c.Name, l.Contender.Version, l.Contender.Build, c.Version, c.Build)
			}
		}
	}
	return ""
}

// differences describes how two environments differ.
func differences(there, here record.Environment) string {
	var all []string
	for _, f := range []struct {
		what        string
		there, here any
	}{
		{"commit", there.Commit, here.Commit},
		{"processor", there.Machine, here.Machine},
		{"cores", there.Cores, here.Cores},
		{"memory in MB", there.MemoryMB, here.MemoryMB},
		{"kernel", there.Kernel, here.Kernel},
		{"Go", there.Go, here.Go},
		{"congestion control", there.Congestion, here.Congestion},
		{"file system", there.Storage, here.Storage},
		{"build of haul", there.Generator, here.Generator},
	} {
		if f.there != f.here {
			all = append(all, fmt.Sprintf("%s %q, and not %q", f.what, fmt.Sprint(f.there), fmt.Sprint(f.here)))
		}
	}
	return strings.Join(all, ", ")
}

// line returns the known result of a contender's round in a scenario, if the scenario and the
// build of the contender are the same. A scenario without a name is for contenders that are
// absent from all.
func (p past) line(sc Scenario, c contender, round int) (record.Line, bool) {
	l, ok := p.lines[turn{sc.Name, c.Name, c.Server, round}]
	return l, ok && seedless(l.Scenario) == seedless(sc.Scenario) && l.Contender == c.Contender
}

// round reports whether all contenders had their turn in a round, and which failed.
func (p past) round(sc Scenario, turns []contender, round int) (failed []string, whole bool) {
	for _, c := range turns {
		l, ok := p.line(sc, c, round)
		if !ok {
			return nil, false
		}
		if l.Error != "" {
			failed = append(failed, c.Name)
		}
	}
	return failed, true
}
