package hooks

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Many events for one hook do not delay the others for long, and only events of that hook are
// dropped.
func TestTurns(t *testing.T) {
	turns := newTurns(3)
	for i := range 2 * maxQueue {
		if got := turns.add(waiting{hook: 0}); got != (i < maxQueue) {
			t.Fatalf("event %d: %v", i, got)
		}
	}
	for range 2 {
		if !turns.add(waiting{hook: 2}) {
			t.Fatal("there is no room for the other hook")
		}
	}
	var got []int
	for range 5 {
		<-turns.some
		got = append(got, turns.take().hook)
	}
	if want := []int{0, 2, 0, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("the turns are %v, want %v", got, want)
	}
}

// All hooks together have at most maxQueues waiting runs.
func TestTurnsBound(t *testing.T) {
	turns := newTurns(MaxHooks)
	for hook := range MaxHooks {
		for turns.add(waiting{hook: hook}) {
		}
	}
	if n := len(turns.some); n != maxQueues {
		t.Errorf("%d runs wait, want %d", n, maxQueues)
	}
}

// Each run is taken once, even if goroutines add and take at the same time.
func TestTurnsAtOnce(t *testing.T) {
	const hooks, each = 3, 1000
	turns := newTurns(hooks)
	var working sync.WaitGroup
	var taken [hooks]atomic.Int64
	for hook := range hooks {
		working.Go(func() {
			for range each {
				if !turns.add(waiting{hook: hook}) {
					t.Error("there is no room")
				}
			}
		})
		working.Go(func() {
			for range each {
				<-turns.some
				taken[turns.take().hook].Add(1)
			}
		})
	}
	working.Wait()
	for hook := range taken {
		if n := taken[hook].Load(); n != each {
			t.Errorf("%d runs of hook %d were taken, want %d", n, hook, each)
		}
	}
}
