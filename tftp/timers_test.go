package tftp

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever is set, moved and removed, each session is looked at when it is
// due, and none before the first.
func TestTimers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	base := time.Unix(1e9, 0)
	var heap timers
	sessions := make([]*session, 50)
	due := map[*session]time.Time{}
	for i := range sessions {
		sessions[i] = &session{}
	}
	for range 20_000 {
		s := sessions[rng.IntN(len(sessions))]
		at := base.Add(time.Duration(rng.IntN(1000)))
		switch rng.IntN(4) {
		case 0, 1:
			heap.set(s, at)
			if was, ok := due[s]; !ok || at.Before(was) {
				due[s] = at
			}
		case 2:
			heap.remove(s)
			delete(due, s)
		case 3:
			if s := heap.pop(at); s != nil {
				if was, ok := due[s]; !ok || was.After(at) {
					t.Fatalf("popped at %v, due at %v", at, was)
				}
				delete(due, s)
			}
		}
		first := time.Time{}
		for _, at := range due {
			if first.IsZero() || at.Before(first) {
				first = at
			}
		}
		if heap.next() != first || len(heap.heap) != len(due) {
			t.Fatalf("next is %v with %d set, want %v with %d", heap.next(), len(heap.heap), first, len(due))
		}
		for i, s := range heap.heap {
			if s.timer != i+1 {
				t.Fatal("a session does not know its place")
			}
		}
	}
	heap.set(sessions[0], time.Time{})
	if _, ok := due[sessions[0]]; !ok && sessions[0].timer != 0 {
		t.Error("never is a time")
	}
}
