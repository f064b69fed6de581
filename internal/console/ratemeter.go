package console

import (
	"time"
)

const (
	// RedrawEvery is the time between two drawings of bars.
	RedrawEvery = 100 * time.Millisecond

	// rateOver is the time over which the rate is taken.
	rateOver = 5 * time.Second
)

// A RateMeter measures the rate of the last few seconds.
type RateMeter struct {
	times []time.Time
	bytes []int64
}

// Add records how many bytes have moved by now.
func (r *RateMeter) Add(now time.Time, bytes int64) {
	if n := len(r.times); n > 0 && now.Sub(r.times[n-1]) < RedrawEvery {
		return // so that there are at most rateOver / redraw entries
	}
	r.times, r.bytes = append(r.times, now), append(r.bytes, bytes)
	for len(r.times) > 2 && now.Sub(r.times[1]) >= rateOver {
		r.times, r.bytes = r.times[1:], r.bytes[1:]
	}
}

// PerSecond returns the rate in bytes a second.
func (r *RateMeter) PerSecond() int64 {
	n := len(r.times)
	if n < 2 {
		return 0
	}
	return max(PerSecond(r.bytes[n-1]-r.bytes[0], r.times[n-1].Sub(r.times[0])), 0)
}
