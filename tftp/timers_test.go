package tftp

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// With any calls of set and remove, each session is returned when it is due, and not before.
func TestTimers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	base := time.Unix(1e9, 0)
	var heap timers
	spans := []time.Duration{time.Microsecond, 4 * time.Millisecond, 80 * time.Millisecond, time.Second}
	sessions := make([]*session, 50)
	due := map[*session]time.Time{}
	for i := range sessions {
		sessions[i] = &session{}
	}
	for range 20_000 {
		s := sessions[rng.IntN(len(sessions))]
		// Time passes, and each deadline is in the near or the far future.
		base = base.Add(time.Duration(rng.IntN(int(2 * time.Millisecond))))
		at := base.Add(time.Duration(rng.Int64N(int64(spans[rng.IntN(len(spans))]))))
		switch rng.IntN(4) {
		case 0, 1:
			heap.set(s, at)
			due[s] = at
		case 2:
			heap.remove(s)
			delete(due, s)
		case 3:
			if s := heap.pop(at); s != nil {
				if was, ok := due[s]; !ok || was.After(at) {
					t.Fatalf("popped at %v, due at %v", at, was)
				}
				delete(due, s)
				break
			}
			for _, was := range due {
				if !was.After(at) {
					t.Fatalf("popped nothing at %v, one was due at %v", at, was)
				}
			}
		}
		first := time.Time{}
		for _, at := range due {
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		if next := heap.next(); next.After(first) && !first.IsZero() || next.IsZero() && !first.IsZero() || len(heap.heap) != len(due) {
			t.Fatalf("next is %v with %d set, want at most %v with %d", next, len(heap.heap), first, len(due))
		}
		for _, s := range sessions {
			_, set := due[s]
			if set != (s.timer != 0) || set && heap.heap[s.timer-1].session != s {
				t.Fatal("a session does not know its place")
			}
		}
	}
	heap.set(sessions[0], time.Time{})
	if _, ok := due[sessions[0]]; !ok && sessions[0].timer != 0 {
		t.Error("never is a time")
	}
}

// Packets that wait in the socket are handled before a deadline counts. But a flood cannot delay
// deadlines by more than maxBehind.
func TestTimersWaitForTheSocket(t *testing.T) {
	for _, test := range []struct {
		late     time.Duration
		full     bool
		timeouts int64
	}{
		{maxBehind / 2, false, 1},
		{maxBehind / 2, true, 0},
		{2 * maxBehind, true, 1},
	} {
		m := newSteppedServer(Config{Store: &tftptest.Endless{Size: 1 << 40}})
		m.ask(peerAt(0), tftptest.RRQ("image"))
		m.turn(0)
		m.turn(0)
		s := m.sh.sessions[peerAt(0)]
		if s == nil {
			t.Fatal("no transfer began")
		}
		m.now = s.machine.Deadline().Add(test.late)
		n := 0
		if test.full {
			for n = range m.sh.in {
				m.deliver(n, peerAt(1), []byte{0, 5, 0, 0, 'x', 0}) // ERROR packets that belong to no transfer
			}
			n = len(m.sh.in)
		}
		m.turn(n)
		if got := s.machine.Stats().Timeouts; got != test.timeouts {
			t.Errorf("%v late, full read %v: %d timeouts, want %d", test.late, test.full, got, test.timeouts)
		}
		m.turn(0)
		if got := s.machine.Stats().Timeouts; got != 1 {
			t.Errorf("%v late, full read %v, then an empty one: %d timeouts, want 1", test.late, test.full, got)
		}
		m.halt(t)
	}
}
