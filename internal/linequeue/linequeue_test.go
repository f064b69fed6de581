package linequeue

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// If the log blocks, Add does not: lines for which the queue has no room are lost, and counted.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var written []int
		var gaps []int64
		q := New(func(line int) { <-release; written = append(written, line) }, func(lost int64) { gaps = append(gaps, lost) })
		go q.Run()
		for i := range Max + 1000 {
			q.Add(i)
		}
		lost := q.Lost()
		if lost < 999 || lost > 1000 { // Run may have taken one line from the queue
			t.Errorf("%d lines are lost", lost)
		}
		began := time.Now()
		q.Close()
		if took := time.Since(began); took != Grace {
			t.Errorf("Close took %v", took)
		}
		close(release)
		synctest.Wait()
		if len(written) != Max+1000-int(lost) || !slices.IsSorted(written) || !slices.Equal(gaps, []int64{lost}) {
			t.Errorf("%d lines are written, with the gaps %v", len(written), gaps)
		}
	})
}
