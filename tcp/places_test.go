package tcp

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newPlaces(max int64, room int) *places {
	return &places{max: max, freed: make(chan struct{}, room)}
}

// overInTime is closed when no goroutine should wait any more.
func overInTime(t *testing.T) <-chan struct{} {
	c := make(chan struct{})
	timer := time.AfterFunc(patience, func() { close(c) })
	t.Cleanup(func() { timer.Stop() })
	return c
}

// Each goroutine that waits for a place gets one, however many try at the same time,
// and never more than there are.
func TestPlacesLoseNoWakeUp(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	for _, max := range []int64{1, 3} {
		for range 5 {
			p := newPlaces(max, maxWaiters)
			o := overInTime(t)
			var inside atomic.Int64
			var all sync.WaitGroup
			for range 4 * max {
				all.Go(func() {
					for range 20_000 {
						if !p.take() && !p.wait(o) {
							t.Error("a goroutine waits for a place, and is not woken")
							return
						}
						if n := inside.Add(1); n > max {
							t.Errorf("%d have one of %d places", n, max)
						}
						inside.Add(-1)
						p.give()
					}
				})
			}
			all.Wait()
			if n := p.taken.Load(); n != 0 || t.Failed() {
				t.Fatalf("%d places are taken in the end", n)
			}
		}
	}
}

// A failed try takes no place, not even for a moment: another connection could be
// refused for it, though a place is free.
func TestPlacesAreFoundWhenFree(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	p := newPlaces(1, maxWaiters)
	var most atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 300_000 {
				if p.take() {
					p.give()
				} else if n := p.taken.Load(); n > p.max {
					most.Store(n)
				}
			}
		})
	}
	all.Wait()
	if n := most.Load(); n > 0 {
		t.Errorf("%d are counted for %d place", n, p.max)
	}
}

// When more places become free at once than freed has room for, each goroutine woken
// wakes the next.
func TestPlacesFreedTogether(t *testing.T) {
	p := newPlaces(2, 1)
	p.taken.Store(2)
	p.waiting.Store(2)
	p.give()
	p.give()           // for which freed has no room
	<-p.freed          // one of the two wakes,
	p.waiting.Store(1) // and takes a place:
	if !p.wait(overInTime(t)) {
		t.Fatal("no place, and two are free")
	}
	select {
	case <-p.freed:
	default:
		t.Error("a place is free, and who waits is not woken")
	}
}
