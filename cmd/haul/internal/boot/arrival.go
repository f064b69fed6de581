package boot

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// An Arrival says when the machines are switched on: evenly, at random, or, for the zero Arrival,
// all at once.
type Arrival struct {
	Over time.Duration // the machines are spread evenly over this time
	// Rate is the alternative: the average number of machines that arrive per second, independently
	// of each other.
	Rate float64
}

// maxArrival is the longest time over which machines may arrive.
const maxArrival = 24 * time.Hour

// ParseArrival parses "all", "linear:DURATION" or "poisson:RATE". The rate is in machines per
// second.
func ParseArrival(s string) (Arrival, error) {
	kind, value, _ := strings.Cut(s, ":")
	switch kind {
	case "all":
		if s == "all" {
			return Arrival{}, nil
		}
	case "linear":
		if d, err := time.ParseDuration(value); err == nil && d > 0 && d <= maxArrival {
			return Arrival{Over: d}, nil
		}
	case "poisson":
		if r, err := strconv.ParseFloat(value, 64); err == nil && r > 0 && r <= 1e6 {
			return Arrival{Rate: r}, nil
		}
	}
	return Arrival{}, fmt.Errorf("%q: must be all, linear:TIME (linear:10m) or poisson:RATE (poisson:20, machines a second)", s)
}

// String returns a in the form that ParseArrival reads.
func (a Arrival) String() string {
	switch {
	case a.Over > 0:
		return "linear:" + a.Over.String()
	case a.Rate > 0:
		return "poisson:" + strconv.FormatFloat(a.Rate, 'g', -1, 64)
	}
	return "all"
}

// Times returns when each of n machines is switched on, in ascending order, counted from the start
// of the run.
func (a Arrival) Times(n int, seed uint64) []time.Duration {
	times := make([]time.Duration, n)
	d := dice(seed ^ 0xa5a5a5a5a5a5a5a5)
	at := 0.0
	for i := range times {
		switch {
		case a.Over > 0:
			at = a.Over.Seconds() * float64(i) / float64(n)
		case a.Rate > 0:
			at += -math.Log(1-d.part()) / a.Rate
		}
		times[i] = time.Duration(min(at, 7*maxArrival.Seconds()) * float64(time.Second))
	}
	return times
}

// When returns the time by which the given part (0 to 1) of n machines was up. up holds the times
// at which machines came up, sorted. ok is false if not that many came up.
func When(up []time.Duration, n int, part float64) (at time.Duration, ok bool) {
	need := int(math.Ceil(part*float64(n) - 1e-9))
	if need < 1 || need > len(up) {
		return 0, false
	}
	return up[need-1], true
}
