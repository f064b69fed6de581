package suite

import (
	"fmt"
	"strings"

	"github.com/haul-project/haul/bench/suite/record"
)

// past holds the measurements of the earlier parts of a run. The zero value is for a run that has
// no earlier part.
type past struct {
	began     string
	lines     map[turn]record.Line
	scenarios map[string]record.Scenario // the measured scenarios by name, without their seeds
	last      int                        // number of the highest round
}

// A turn identifies what one line of a run measures.
type turn struct {
	scenario, contender, server string
	round                       int
}

// resumed returns the measurements of the latest run in `lines`. If that run was made in another
// environment than this one, resumed returns the reason why its measurements do not count. Earlier
// runs never count, because a report takes a scenario from the latest run that has it.
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

// seedless returns a scenario without its seed, so that scenarios can be compared: the seed depends
// on the round.
func seedless(sc record.Scenario) record.Scenario {
	sc.Seed = 0
	return sc
}

// conflict describes a difference between a scenario now and in the earlier part of the run, or
// returns "": another scenario may have the same name, as in quick runs, or a contender may be
// another build. In one run, these could not be distinguished.
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

// differences describes the differences between two environments. It returns "" if there are no
// differences.
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

// line returns the result of a contender in a round of a scenario. ok is false if there is no
// result, or if the scenario or the build of the contender has changed. A scenario without a name
// stands for all scenarios: its results say that contenders are absent.
func (p past) line(sc Scenario, c contender, round int) (record.Line, bool) {
	l, ok := p.lines[turn{sc.Name, c.Name, c.Server, round}]
	return l, ok && seedless(l.Scenario) == seedless(sc.Scenario) && l.Contender == c.Contender
}

// round reports whether all contenders have a result for a round, and returns the names of the
// contenders that failed in it.
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
