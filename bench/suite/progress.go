package suite

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/bench/suite/record"
)

// progress estimates how much time is left. For a scenario that has begun, it uses the duration of
// its measurements so far. For the others it uses their guesses, multiplied by the ratio of the
// time spent so far to the guesses for it.
type progress struct {
	scenarios map[string]*share
	order     []string // names in the order of add; sums over a map would differ in rounding each time
}

// share holds the progress of one scenario.
type share struct {
	guess       time.Duration
	left, taken int
	spent       time.Duration
}

func (p *progress) add(sc Scenario, measurements int) {
	if p.scenarios == nil {
		p.scenarios = make(map[string]*share)
	}
	p.scenarios[sc.Name] = &share{guess: sc.Guess, left: measurements}
	p.order = append(p.order, sc.Name)
}

func (p *progress) done(sc Scenario, took time.Duration) {
	s := p.scenarios[sc.Name]
	s.left--
	s.taken++
	s.spent += took
}

func (p *progress) skip(sc Scenario, n int) { p.scenarios[sc.Name].left -= n }

// left returns the number of remaining measurements, and the estimated time for them.
func (p *progress) left() (int, time.Duration) {
	var guessed, spent time.Duration
	for _, name := range p.order {
		s := p.scenarios[name]
		guessed += time.Duration(s.taken) * s.guess
		spent += s.spent
	}
	wrong := 1.0
	if guessed > 0 {
		wrong = spent.Seconds() / guessed.Seconds()
	}
	n, seconds := 0, 0.0
	for _, name := range p.order {
		s := p.scenarios[name]
		each := s.guess.Seconds() * wrong
		if s.taken > 0 {
			each = s.spent.Seconds() / float64(s.taken)
		}
		n += s.left
		seconds += each * float64(s.left)
	}
	return n, time.Duration(seconds * float64(time.Second))
}

func (s *Suite) say(format string, args ...any) {
	fmt.Fprintf(s.Progress, format+"\n", args...)
}

// tell prints the result of a measurement, and the remaining time, during the run.
func (s *Suite) tell(l record.Line) {
	n, left := s.todo.left()
	what := fmt.Sprintf("%8.2f MB/s", l.Figures[record.Rate])
	if cpu, ok := l.Figures[record.CPUPerPacket]; ok {
		what += fmt.Sprintf("  %6.2f us", cpu)
	}
	if cpu, ok := l.Figures[record.CPUPerRequest]; ok {
		what = fmt.Sprintf("%8.0f requests/s  %6.2f us", l.Figures[record.RequestRate], cpu)
	}
	if memory, ok := l.Figures[record.IdleMemory]; ok {
		what = fmt.Sprintf("%8.2f MB", memory)
	}
	if l.Absent != "" {
		what = "not tried: " + l.Absent
	}
	if l.Error != "" {
		what = "failed: " + l.Error
	}
	s.say("%4d left, %-8s %-26s %-16s %s", n, left.Round(time.Second), l.Scenario.Name, l.Contender.Name, what)
	for _, w := range l.Warnings {
		s.say("     warning: %s", w)
	}
}
