package tftpclient

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Goroutines start and end while others wait for all of them.
func TestGroup(t *testing.T) {
	var g group
	var ran atomic.Int64
	g.wait() // the group is still empty
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				g.run(func() { ran.Add(1) })
				g.wait()
			}
		})
	}
	wg.Wait()
	g.wait()
	if n := ran.Load(); n != 16_000 {
		t.Errorf("%d of 16000 have run by the end of the wait", n)
	}
}
