package console

import (
	"testing"
	"time"
)

// The rate covers the last seconds, and the meter keeps a bounded number of entries.
func TestRateMeter(t *testing.T) {
	var r RateMeter
	now := time.Unix(1e9, 0)
	if r.PerSecond() != 0 {
		t.Error("a rate before the first byte")
	}
	var bytes int64
	for range 100_000 { // 100 s at 1 MB/s, in small steps
		r.Add(now, bytes)
		now, bytes = now.Add(time.Millisecond), bytes+1000
	}
	if got := r.PerSecond(); got != 1e6 {
		t.Errorf("%d bytes a second", got)
	}
	if n := len(r.times); n > int(rateOver/RedrawEvery)+2 {
		t.Errorf("%d times are remembered", n)
	}
	for range 2 * rateOver / RedrawEvery { // no more bytes arrive
		now = now.Add(RedrawEvery)
		r.Add(now, bytes)
	}
	if got := r.PerSecond(); got != 0 {
		t.Errorf("%d bytes a second when nothing moves", got)
	}
}
