package suite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/haul-project/haul/bench/peer"
)

// A Plan says which measurements a run will make.
type Plan struct {
	Scenarios    int           // number of scenarios with measurements still to be made
	Measurements int           // number of measurements still to be made
	Known        int           // number of measurements that are already in Suite.Done, and are not repeated
	Time         time.Duration // expected duration, computed from the guesses of the scenarios

	// NewRun is the reason why no measurement in Suite.Done counts. It is empty if some count, or
	// if Done is empty.
	NewRun string

	parts  []part
	absent []peer.Absentee
}

// A part is a scenario of a plan, with its contenders.
type part struct {
	Scenario
	turns   []contender
	refused []refusal      // contenders that are not tried
	rounds  []int          // numbers of the rounds that are to be measured
	failed  map[string]int // number of failed rounds, by contender
}

// A refusal names a contender that is not tried in a scenario, and the reason.
type refusal struct {
	name string
	why  error
}

func (p *part) measurements() int { return len(p.rounds) * len(p.turns) }

// Plan finds the contenders, and returns what Run would do. It measures nothing and writes nothing.
// It returns an error if there is no haul, if a name in Only is unknown, or if no contender of the
// scenarios is present.
//
// Results in Done for the same scenario and contenders are not measured again. A round that was
// cut off is measured again as a whole: its contenders are compared with each other, so they must
// take turns.
func (s *Suite) Plan(scenarios []Scenario) (*Plan, error) {
	if s.Rounds == 0 {
		s.Rounds = DefaultRounds
	}
	set, err := s.find()
	if err != nil {
		return nil, err
	}
	s.env, s.tools = environment(placeFor(s.Dir)), set.Tools
	s.env.Generator = set.Servers[0].Build // haul makes the loads for TFTP, even if haul is not measured
	s.choose(&set)
	set.Absent = slices.DeleteFunc(set.Absent, func(a peer.Absentee) bool {
		return !slices.ContainsFunc(scenarios, func(sc Scenario) bool { return concerns(a, sc) })
	})
	p := &Plan{absent: set.Absent}
	for _, sc := range scenarios {
		turns, refused := takePart(sc, set)
		p.parts = append(p.parts, part{Scenario: sc, turns: turns, refused: refused})
	}
	p.NewRun = s.resume(p.parts)
	for i := range p.parts {
		pt := &p.parts[i]
		s.complete(pt)
		p.Known += (s.Rounds - len(pt.rounds)) * len(pt.turns)
		p.Measurements += pt.measurements()
		p.Time += pt.Guess * time.Duration(pt.measurements())
		if pt.measurements() > 0 {
			p.Scenarios++
		}
	}
	if p.Measurements+p.Known == 0 {
		return nil, nobody(set)
	}
	return p, nil
}

// concerns reports whether an absent contender speaks the protocol of a scenario.
func concerns(a peer.Absentee, sc Scenario) bool {
	return protocolOf(a) == sc.Protocol
}

// resume prepares to continue the latest run in Done. If that is not possible, it begins a new run,
// and returns the reason.
func (s *Suite) resume(parts []part) (why string) {
	s.past, why = resumed(s.Done, s.env)
	for _, pt := range parts {
		if why == "" {
			why = s.past.conflict(pt.Scenario, pt.turns)
		}
	}
	if why != "" {
		s.past, why = past{}, "its latest run had "+why
	}
	if s.began = s.past.began; s.began == "" {
		s.began = now()
	}
	return why
}

// complete decides which rounds of a part are still to be measured, and counts the failures in the
// others.
func (s *Suite) complete(pt *part) {
	pt.failed = make(map[string]int)
	for round := range s.Rounds {
		failed, whole := s.past.round(pt.Scenario, pt.turns, round)
		if !whole {
			pt.rounds = append(pt.rounds, round)
			continue
		}
		for _, name := range failed {
			pt.failed[name]++
		}
	}
}

// nobody returns an error that explains why there is nothing to measure.
func nobody(set peer.Set) error {
	why := []string{"nothing to measure: none of the contenders takes part in any of these scenarios"}
	for _, a := range set.Absent {
		why = append(why, fmt.Sprintf("%s is absent: %s", a.Name, a.Why))
	}
	return errors.New(strings.Join(why, "; "))
}
