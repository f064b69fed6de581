package pipeline

import (
	"testing"
	"time"
)

// A fuzzScript is a list of choices, one byte each. After its last byte, every choice is 0.
type fuzzScript []byte

func (f *fuzzScript) next() int {
	if len(*f) == 0 {
		return 0
	}
	n := int((*f)[0])
	*f = (*f)[1:]
	return n
}

// These are the events among which FuzzPlan chooses in each step.
const (
	fuzzFull    = iota // a request gets a complete answer
	fuzzFate           // a request gets an answer of any kind
	fuzzNobody         // an answer arrives for which there is no request
	fuzzSession        // a session is lost
	fuzzOpen           // a session opens
	fuzzWait           // time passes
	fuzzLimit          // the driver calls Limit
	fuzzFlush          // the driver calls Flush
	fuzzEndAt          // the driver calls EndAt
	fuzzRefuse         // the server allows no more sessions
	fuzzKinds
)

// FuzzPlan runs a script with two plans on one link, and checks every byte after every event. After
// the last event of the script, all requests get complete answers, and both plans must then be done.
func FuzzPlan(f *testing.F) {
	for kind := range byte(fuzzKinds) {
		script := []byte{3, 4, 9, 30, 200, 5, 1, 7}
		for i := range byte(30) {
			script = append(script, kind, i, i/2, fuzzFull, i/3)
		}
		f.Add(script)
		f.Add(append([]byte{7, 1, 3, 255, 255, 0, 9, 3}, script...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 600 {
			return
		}
		script := fuzzScript(b)
		g := &game{now: time.Unix(1_000_000, 0), faults: 1, open: []int{0}}
		g.choose = func(n int) int { return script.next() % n }
		chunk := 1 + script.next()%16
		g.link = NewLink(Limits{
			SessionBytes: chunk * (1 + script.next()%4),
			MinBytes:     chunk * (1 + script.next()%8),
			MaxBytes:     chunk * (1 + script.next()%16),
			Sessions:     1 + script.next()%4,
		})
		for range 2 {
			c := Config{Link: g.link, Chunk: chunk, Size: int64(script.next()) - 1, Offset: int64(script.next() % 20)}
			flags := script.next()
			c.UntilEOF, c.Repeat = flags&1 > 0, flags&2 > 0
			if flags&4 > 0 {
				c.Span = int64(1 + flags/8)
			}
			m := newModel(c, 600)
			m.p.shrinkTo = 1
			g.plans = append(g.plans, m)
		}
		g.size = 100
		check := func() {
			t.Helper()
			if problem := g.check(); problem != "" {
				t.Fatalf("after %q: %s", g.log, problem)
			}
		}
		for len(script) > 0 {
			g.drive()
			check()
			g.fuzzStep()
			check()
		}
		for _, m := range g.plans {
			m.setLimit(noEnd)
		}
		for range 5000 {
			g.now = g.now.Add(time.Millisecond)
			g.drive()
			all := g.outstanding()
			if len(all) == 0 {
				break
			}
			g.answer(all[0], fateFull)
			check()
		}
		for _, m := range g.plans {
			m.judge()
			if m.problem != "" {
				t.Fatalf("after %q: %s", g.log, m.problem)
			}
		}
	})
}

func (g *game) fuzzStep() {
	kind := g.choose(fuzzKinds)
	m := g.plans[g.choose(2)]
	all := g.outstanding()
	switch {
	case kind == fuzzFull && len(all) > 0:
		g.answer(all[g.choose(len(all))], fateFull)
	case kind == fuzzFate && len(all) > 0:
		g.answer(all[g.choose(len(all))], g.choose(fates))
	case kind == fuzzNobody:
		id := uint32(g.choose(256)) | uint32(g.choose(256))<<10
		if _, known := m.out[id]; !known && (m.p.Reply(g.now, id, 0) || m.p.EOF(id) || m.p.Failed(g.now, id, nil) || m.p.LocalFailed(id, nil)) {
			m.fail("an answer to nothing is accepted")
		}
		for id, r := range m.out {
			if m.p.Reply(g.now, id, r.n+1) || m.p.Reply(g.now, id, -1) {
				m.fail("an answer of a wrong length is accepted")
			}
		}
	case kind == fuzzSession:
		g.lose(g.open[g.choose(len(g.open))])
	case kind == fuzzOpen && len(g.open) < 4:
		g.open = append(g.open, len(g.open))
	case kind == fuzzWait:
		g.now = g.now.Add(time.Duration(g.choose(256)) * 100 * time.Millisecond)
	case kind == fuzzLimit:
		m.setLimit(int64(2 * g.choose(256)))
	case kind == fuzzFlush:
		m.flush()
	case kind == fuzzEndAt:
		m.endAt(int64(2 * g.choose(256)))
	case kind == fuzzRefuse:
		g.link.LimitSessions(g.choose(4))
	}
}
