package pipeline

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A game is a small simulation. The function choose decides which event happens next. In
// TestEverySmallWorld it tries all possibilities, and in FuzzPlan the fuzzer decides.
type game struct {
	choose func(n int) int // returns a number from 0 to n-1
	now    time.Time
	link   *Link
	plans  []*model
	open   []int // numbers of the open sessions
	faults int   // how many faults are still allowed
	size   int64 // size of the server's file in bytes
	log    []string
}

// These are the possible results of a request.
const (
	fateFull = iota
	fateShort
	fateEmpty
	fateEOF
	fateFailed
	fateLocalFailed
	fates
)

// A sentRequest is an outstanding request.
type sentRequest struct {
	m  *model
	id uint32
}

// outstanding returns all outstanding requests, sorted by plan and id, so that a run can be repeated.
func (g *game) outstanding() []sentRequest {
	var all []sentRequest
	for _, m := range g.plans {
		ids := make([]uint32, 0, len(m.out))
		for id := range m.out {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		for _, id := range ids {
			all = append(all, sentRequest{m, id})
		}
	}
	return all
}

// drive sends all requests that the plans want to send.
func (g *game) drive() {
	for some := true; some; {
		some = false // a session may have room for one plan, but not for another
		for _, session := range g.open {
			for _, m := range g.plans {
				for {
					if _, ok := m.next(g.now, session); !ok {
						break
					}
					some = true
				}
			}
		}
	}
	for _, m := range g.plans {
		m.checkBusy(g.open)
	}
}

// answer gives a request the result fate. If that is a fault, it lowers the number of faults that are
// still allowed.
func (g *game) answer(s sentRequest, fate int) {
	r := s.m.out[s.id]
	n := int(min(max(g.size-r.off, 0), int64(r.n)))
	if n == 0 && fate <= fateEmpty {
		fate = fateEOF
	}
	g.log = append(g.log, fmt.Sprintf("%+v: %s", r, [...]string{"full", "short", "empty", "EOF", "error", "local error"}[fate]))
	switch fate {
	case fateFull, fateShort, fateEmpty:
		if fate == fateShort {
			n = 1 + g.choose(max(n-1, 1))
		}
		if fate == fateEmpty {
			n = 0
		}
		s.m.store(s.id, n)
		s.m.reply(g.now, s.id, n)
	case fateEOF:
		s.m.eof(s.id)
	case fateFailed, fateLocalFailed:
		s.m.failure(g.now, s.id, fate == fateLocalFailed)
	}
}

// lose makes a session fail. Another session with the same number may be opened later.
func (g *game) lose(session int) {
	g.log = append(g.log, fmt.Sprintf("session %d lost", session))
	for _, m := range g.plans {
		m.lost(session)
	}
	g.link.SessionLost(session)
}

func (g *game) check() string {
	for _, m := range g.plans {
		m.check()
		if m.problem != "" {
			return m.problem
		}
	}
	return checkLink(g.link, g.plans)
}

// step makes one event happen. It returns false if no event is possible any more.
func (g *game) step() bool {
	g.now = g.now.Add(time.Millisecond)
	all := g.outstanding()
	if len(all) == 0 {
		return false
	}
	choices := len(all)
	if g.faults > 0 {
		choices = len(all)*fates + len(g.open)
	}
	c := g.choose(choices)
	switch {
	case c < len(all):
		g.answer(all[c], fateFull)
	case c < len(all)*fates:
		g.faults--
		g.answer(all[c%len(all)], c/len(all))
	default:
		g.faults--
		g.lose(g.open[c-len(all)*fates])
	}
	return true
}

var exhaustFaults = flag.Int("faults", 2, "faults in each of the small worlds that are all tried; one less with two sessions")

// TestEverySmallWorld tries every order in which the requests for a file of up to four chunks, on
// up to two sessions, can be answered. It also tries every way to place a few faults among the
// answers: short answers, empty answers, an end of file, errors, and the loss of a session.
func TestEverySmallWorld(t *testing.T) {
	skipUnderRace(t)
	worlds := 0
	for sessions := 1; sessions <= 2; sessions++ {
		for _, test := range []struct {
			c    Config
			size int64 // size of the server's file in bytes
		}{
			{Config{Size: 1}, 1},
			{Config{Size: 4}, 9},
			{Config{Size: 7}, 7},
			{Config{Size: 8}, 5},
			{Config{Size: 8}, 8},
			{Config{Size: -1}, 5},
			{Config{Size: 3, UntilEOF: true}, 5},
			{Config{Size: 8, UntilEOF: true}, 8},
			{Config{Size: 8, Span: 4}, 8},
			{Config{Size: 6, Repeat: true}, 6},
			{Config{Size: 5, UntilEOF: true, Repeat: true}, 5},
		} {
			test.c.Chunk = 2
			n := everyOrder(t, test.c, sessions, test.size, *exhaustFaults+1-sessions)
			t.Logf("%+v, the server has %d, %d sessions: %d worlds", test.c, test.size, sessions, n)
			if worlds += n; t.Failed() {
				return
			}
		}
	}
	t.Logf("%d worlds", worlds)
}

// everyOrder plays a game again and again, until all combinations of choices were tried. It returns
// the number of games.
func everyOrder(t *testing.T, c Config, sessions int, size int64, faults int) (worlds int) {
	var script []int // the choices so far
	var widths []int // the number of possibilities for each choice
	for {
		at := 0
		g := &game{now: time.Unix(1_000_000, 0), size: size, faults: faults}
		g.choose = func(n int) int {
			if at == len(script) {
				script, widths = append(script, 0), append(widths, n)
			}
			at++
			return script[at-1]
		}
		g.link = NewLink(Limits{SessionBytes: 2 * c.Chunk, MinBytes: 4 * c.Chunk, MaxBytes: 4 * c.Chunk})
		c.Link = g.link
		m := newModel(c, 10)
		g.plans = []*model{m}
		for session := range sessions {
			g.open = append(g.open, session)
		}
		problem := ""
		for problem == "" {
			g.drive()
			if !g.step() {
				break
			}
			problem = g.check()
		}
		if problem == "" {
			m.judge()
			problem = m.problem
		}
		if problem != "" {
			t.Errorf("config %+v, %d sessions, the server has %d bytes, after %q: %s", c, sessions, size, g.log, problem)
			return worlds
		}
		worlds++
		i := len(script) - 1
		for i >= 0 && script[i] == widths[i]-1 {
			i--
		}
		if i < 0 {
			return worlds
		}
		script, widths = script[:i+1], widths[:i+1]
		script[i]++
	}
}
