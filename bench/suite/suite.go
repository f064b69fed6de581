// Package suite measures haul and its peers.
//
// A scenario says what the clients do; contenders take turns in it, round
// after round and each round in another order, so that whatever else changes
// on the machine changes for all of them. Every measurement becomes a line of
// package record as soon as it is made, and so does every failed one and every
// contender that is not there. It needs Linux.
//
//	s := suite.Suite{Haul: "bin/haul", Peers: "bin", Rounds: 5, Out: f, Progress: os.Stderr}
//	plan, err := s.Plan(suite.Full())
//	...
//	err = s.Run(ctx, plan)
package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/suite/record"
)

// A Suite is a run of scenarios.
type Suite struct {
	Haul     string    // binary under test, and the load generator
	Before   string    // another build of haul to compare with; empty means none
	Peers    string    // directory of programs, as peer.Find wants it
	Only     []string  // names of contenders; empty means all
	Rounds   int       // 0 means DefaultRounds
	Dir      string    // where the served files go; empty means the system's directory for temporary files
	Strict   bool      // a failed or insane measurement makes Run return an error
	Out      io.Writer // gets a line for each measurement; nil means none
	Progress io.Writer // for people; nil means none

	// Done is what the results file has already. The latest run in it is resumed, if it
	// was one of the same tree, machine and haul: see [Plan].
	Done []record.Line

	env     record.Environment
	tools   []peer.Tool
	began   string
	past    past
	insane  []error
	todo    progress
	writing error
}

// DefaultRounds is how often each contender gets each scenario, so that a
// median is one and one disturbed round does not show in it.
const DefaultRounds = 5

// errTooMany is why a server is spared what would only make a mess.
var errTooMany = errors.New("it is known not to bear so many at once")

// maxFailures is how many failed rounds of a scenario a contender gets before
// the rest of them is given up: a peer that hangs would take hours.
const maxFailures = 2

// Run measures what is planned, and returns early, without losing anything,
// when ctx ends. It returns an error if nothing can be measured or the results
// cannot be written; that a contender fails is a result.
func (s *Suite) Run(ctx context.Context, p *Plan) error {
	if s.Out == nil {
		s.Out = io.Discard
	}
	if s.Progress == nil {
		s.Progress = io.Discard
	}
	if err := Clean(s.Dir); err != nil {
		s.say("leftovers of a killed run stay: %v", err)
	}
	dir, err := s.workDir()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what stays behind is temporary
	for _, a := range p.absent {
		s.notTried(Scenario{}, contender{Contender: record.Contender{Name: a.Name}}, errors.New(a.Why))
	}
	for _, pt := range p.parts {
		s.todo.add(pt.Scenario, pt.measurements())
	}
	for _, pt := range p.parts {
		for _, r := range pt.refused {
			s.notTried(pt.Scenario, contender{Contender: record.Contender{Name: r.name}}, r.why)
		}
	}
	for _, pt := range p.parts {
		s.scenario(ctx, pt, dir)
		if ctx.Err() != nil || s.writing != nil {
			break
		}
	}
	return s.verdict(ctx)
}

func (s *Suite) verdict(ctx context.Context) error {
	switch {
	case s.writing != nil:
		return fmt.Errorf("write the results: %w", s.writing)
	case ctx.Err() != nil:
		return fmt.Errorf("ended early, results so far are kept: %w", context.Cause(ctx))
	case s.Strict:
		return errors.Join(s.insane...)
	}
	return nil
}

// workDir makes the directory that all files of the run are below.
func (s *Suite) workDir() (string, error) {
	dir, err := os.MkdirTemp(placeFor(s.Dir), ownName()+"-")
	if err != nil {
		return "", fmt.Errorf("make a directory for files to serve (--dir names another place): %w", err)
	}
	// Some servers give up root for a user who must get in here.
	return dir, os.Chmod(dir, 0o755)
}

// scenario gives each contender its turns.
func (s *Suite) scenario(ctx context.Context, pt part, dir string) {
	sc := pt.Scenario
	if pt.measurements() == 0 || ctx.Err() != nil {
		return
	}
	st := stage{suite: s, sc: &sc, root: filepath.Join(dir, "served")}
	defer st.close()
	if err := st.prepare(ctx); err != nil {
		s.todo.skip(sc, pt.measurements())
		if ctx.Err() != nil {
			return // an interrupt says nothing about the contenders
		}
		for _, c := range pt.turns {
			s.notTried(sc, c, err)
		}
		return
	}
	failed := maps.Clone(pt.failed)
	for _, round := range pt.rounds {
		for _, c := range rotated(pt.turns, round) {
			if ctx.Err() != nil {
				return
			}
			l := s.line(sc, c, round)
			if failed[c.Name] >= maxFailures {
				l.Error = fmt.Sprintf("not tried again: it failed in %d rounds", maxFailures)
				s.todo.skip(sc, 1)
				s.write(l)
				continue
			}
			began := time.Now()
			st.measure(ctx, c, &l)
			if ctx.Err() != nil {
				return // what was cut off says nothing about the contender
			}
			if l.Error != "" {
				failed[c.Name]++
			}
			s.todo.done(sc, time.Since(began))
			s.write(l)
			s.tell(l)
		}
	}
}

// rotated returns the contenders in the order of a round: none is always the
// one after the heaviest.
func rotated(turns []contender, round int) []contender {
	k := round % len(turns)
	return slices.Concat(turns[k:], turns[:k])
}

// line begins the result of a measurement.
func (s *Suite) line(sc Scenario, c contender, round int) record.Line {
	return record.Line{
		Run: s.began, Time: now(), Environment: s.env,
		Scenario: sc.Scenario, Contender: c.Contender, Round: round,
	}
}

// notTried records that a contender had no chance, and why, unless that is on
// record. Without a scenario it is about all of them, and who is absent.
func (s *Suite) notTried(sc Scenario, c contender, why error) {
	l := s.line(sc, c, -1)
	l.Absent = why.Error()
	if known, ok := s.past.line(sc, c, -1); ok && known.Absent == l.Absent {
		return
	}
	s.write(l)
	if sc.Name != "" {
		s.tell(l)
	}
}

// write appends a result; the first error ends the run.
func (s *Suite) write(l record.Line) {
	if err := record.Append(s.Out, l); err != nil && s.writing == nil {
		s.writing = err
	}
	if err := Sane(l); err != nil {
		s.insane = append(s.insane, err)
	}
}

// Sane says whether a measurement is one: no failures, and something moved. Transfers
// that were not tried are no failures.
func Sane(l record.Line) error {
	wrong := ""
	switch {
	case l.Absent != "":
	case l.Error != "":
		wrong = l.Error
	case l.Figures[record.Failed] > 0:
		wrong = fmt.Sprintf("%v of %v transfers failed: %q", l.Figures[record.Failed], l.Figures[record.Transfers], l.Warnings)
	case l.Scenario.Group == emulatorGroup:
		if l.Figures[record.CycleP50] <= 0 {
			wrong = "no round trip was measured"
		}
	case l.Scenario.Idle:
		if l.Figures[record.IdleMemory] <= 0 {
			wrong = "no memory was measured"
		}
	case l.Figures[record.Rate] <= 0:
		wrong = "no throughput was measured"
	case l.Contender.Client == "" && !l.Scenario.Untuned && l.Scenario.Protocol == "" && l.Figures[record.DataPackets] <= 0:
		wrong = "no DATA packet was moved"
	}
	if wrong == "" {
		return nil
	}
	return fmt.Errorf("%s, %s, round %d: %s", l.Scenario.Name, l.Contender.Name, l.Round, wrong)
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }
