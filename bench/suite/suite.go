// Package suite measures haul and its peers.
//
// A scenario describes what the clients do. Contenders take turns in it, in a different order in
// each round, so that other changes on the machine affect all of them. Every measurement becomes
// a line of package record at once, as does every failure and every absent contender. The suite
// needs Linux.
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

// A Suite holds the settings and the state of a run of scenarios.
type Suite struct {
	Haul     string    // path of the haul to measure, which is also the load generator
	Before   string    // path of another build of haul to compare with; may be empty
	Peers    string    // directory with the programs, as for peer.Find
	Only     []string  // names of the contenders to measure; empty means all
	Rounds   int       // number of rounds; 0 means DefaultRounds
	Dir      string    // directory in which the served files are made; "" means the system's directory for temporary files
	Strict   bool      // Run returns an error if a measurement failed or is not valid: see Sane
	Out      io.Writer // receives a line for each measurement; may be nil
	Progress io.Writer // receives the progress as text for people; may be nil

	// Done is the previous content of the results file. The latest run in it is resumed, if that
	// run was made with the same source tree, machine and haul: see [Plan].
	Done []record.Line

	env     record.Environment
	tools   []peer.Tool
	began   string
	past    past
	insane  []error
	todo    progress
	writing error
}

// DefaultRounds is the default number of rounds of a scenario. It is odd, and so large that one
// disturbed round does not affect the median.
const DefaultRounds = 5

// errTooMany is the reason why a server does not take part in a load that is known to be too large
// for it.
var errTooMany = errors.New("it is known not to bear so many at once")

// maxFailures is how many failed rounds of a scenario a contender may have before its other
// rounds are skipped: a peer that hangs would take hours.
const maxFailures = 2

// Run makes the measurements of the plan. If ctx ends, it returns early, and keeps the results so
// far. It returns an error if nothing can be measured or the results cannot be written. A contender
// that fails is not an error, but a result.
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
	defer func() { _ = os.RemoveAll(dir) }() // an error only leaves temporary files behind
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

// workDir makes the directory for all files of the run.
func (s *Suite) workDir() (string, error) {
	dir, err := os.MkdirTemp(placeFor(s.Dir), ownName()+"-")
	if err != nil {
		return "", fmt.Errorf("make a directory for files to serve (--dir names another place): %w", err)
	}
	// Some servers give up root, and become a user who needs access to this directory.
	return dir, os.Chmod(dir, 0o755)
}

// scenario measures each contender of a part, round by round.
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
				return // an interrupted measurement says nothing about the contender
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

// rotated returns the contenders in the order of a round. The order differs between rounds, so that
// no contender always runs after the one with the most work.
func rotated(turns []contender, round int) []contender {
	k := round % len(turns)
	return slices.Concat(turns[k:], turns[:k])
}

// line returns the line for a measurement, without its results.
func (s *Suite) line(sc Scenario, c contender, round int) record.Line {
	return record.Line{
		Run: s.began, Time: now(), Environment: s.env,
		Scenario: sc.Scenario, Contender: c.Contender, Round: round,
	}
}

// notTried records that a contender was not tried, and why, unless that is already recorded. An
// empty scenario means that the contender is absent from all scenarios.
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

// write appends a line to the results. After the first error, the run stops.
func (s *Suite) write(l record.Line) {
	if err := record.Append(s.Out, l); err != nil && s.writing == nil {
		s.writing = err
	}
	if err := Sane(l); err != nil {
		s.insane = append(s.insane, err)
	}
}

// Sane returns an error if a measurement is not valid, because transfers failed or nothing was
// moved. A measurement that was not tried counts as valid.
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
