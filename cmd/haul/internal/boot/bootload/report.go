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
	Failed   int // machines that gave up
	Cut      int // machines that were not up when the run was interrupted

	// Failures counts the machines that failed, by reason. Retried counts the transfers that
	// failed, by reason, whether or not the machine came up later. Each has at most maxCauses
	// reasons, and one more for all other reasons.
	Failures, Retried map[string]int

	Count                 boot.Count // counts of all machines together
	LoaderSize, ImageSize int64      // bytes; 0 if no machine got the whole file
	Loaders, Images       []Server

	CPU time.Duration // CPU time of this process

	arrived, up []time.Duration // when machines were switched on, and came up, since the start; up is sorted at the end
	took        []time.Duration // times from switching on until coming up, sorted at the end
}

// A Server holds the counts of one server.
type Server struct {
	URL       string `json:"url"`
	Transfers int    `json:"transfers"` // transfers that have ended
	Failed    int    `json:"failed"`
	Bytes     int64  `json:"bytes"` // bytes of content
}

// server returns the counts of a server for the transfers of a step.
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

// Up returns how many machines came up.
func (r *Report) Up() int { return len(r.up) }

// When returns the time, from the start of the run, by which a fraction of the machines, 0 to 1,
// was up; ok is false if fewer machines came up.
func (r *Report) When(part float64) (at time.Duration, ok bool) {
	return boot.When(r.up, r.Machines, part)
}

// Took returns the time within which a fraction, 0 to 1, of the machines that came up did so. The
// time of each machine is counted from when it was switched on. If no machine came up, Took returns
// 0.
func (r *Report) Took(part float64) time.Duration {
	at, _ := boot.When(r.took, len(r.took), part)
	return at
}

// Bytes returns the bytes of content that were received, including bytes of broken transfers.
func (r *Report) Bytes() int64 { return r.Count.Loader + r.Count.Image }

// PerSecond returns the average rate of the whole run, in bytes a second.
func (r *Report) PerSecond() float64 {
	return float64(r.Bytes()) / cmp.Or(r.Duration.Seconds(), 1)
}
