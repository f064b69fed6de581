package bootload

import (
	"cmp"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot"
)

// A Report is the result of a run: how a fleet booted.
type Report struct {
	Duration time.Duration
	Machines int
	Failed   int // number of machines that gave up
	Cut      int // number of machines that were not up when the run was interrupted

	// Failures counts the machines that failed, by cause. Retried counts the transfers that failed,
	// by cause, even if the machine came up later. Each has at most maxCauses causes, and one more
	// for all others.
	Failures, Retried map[string]int

	Count                 boot.Count // sum of the counts of all machines
	LoaderSize, ImageSize int64      // in bytes; 0 if no machine got the whole file
	Loaders, Images       []Server

	CPU time.Duration // CPU time that this process used

	// arrived and up hold when machines were switched on, and when they came up, since the start of
	// the run. up is sorted at the end of the run.
	arrived, up []time.Duration
	took        []time.Duration // times from switching on to coming up; sorted at the end of the run
}

// A Server holds the counts of one server.
type Server struct {
	URL       string `json:"url"`
	Transfers int    `json:"transfers"` // number of transfers that have ended
	Failed    int    `json:"failed"`
	Bytes     int64  `json:"bytes"` // number of bytes of content
}

// server returns the counts of server n: a server of loaders if step is Load, otherwise a server of
// images.
func (r *Report) server(step boot.Step, n int) *Server {
	if step == boot.Load {
		return &r.Loaders[n]
	}
	return &r.Images[n]
}

func (r *Report) finish(took, cpu time.Duration) {
	r.Duration, r.CPU = took, cpu
	r.Cut = r.Machines - len(r.up) - r.Failed
	slices.Sort(r.up)
	slices.Sort(r.took)
}

// Up returns the number of machines that came up.
func (r *Report) Up() int { return len(r.up) }

// When returns the time, since the start of the run, by which the given part (0 to 1) of the
// machines was up. ok is false if not that many came up.
func (r *Report) When(part float64) (at time.Duration, ok bool) {
	return boot.When(r.up, r.Machines, part)
}

// Took returns the longest boot time among the fastest part (0 to 1) of the machines that came up.
// A machine's boot time begins when it is switched on. If no machine came up, Took returns 0.
func (r *Report) Took(part float64) time.Duration {
	at, _ := boot.When(r.took, len(r.took), part)
	return at
}

// Bytes returns the number of bytes of content that were received, including those of failed
// transfers.
func (r *Report) Bytes() int64 { return r.Count.Loader + r.Count.Image }

// PerSecond returns the average rate of the whole run, in bytes per second.
func (r *Report) PerSecond() float64 {
	return float64(r.Bytes()) / cmp.Or(r.Duration.Seconds(), 1)
}
