package bootload

import (
	"cmp"
	"slices"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot"
)

// A Report is how a fleet booted.
type Report struct {
	Duration time.Duration
	Machines int
	Failed   int // machines that were left alone
	Cut      int // machines that were booting when the run was broken off

	// Failures says why machines failed, and Retried why transfers did, whether the
	// machine then came up or not. Of each there are at most maxCauses reasons, and
	// one for the rest.
	Failures, Retried map[string]int

	Count                 boot.Count // of all machines together
	LoaderSize, ImageSize int64      // bytes; 0 if no machine got it whole
	Loaders, Images       []Server

	CPU time.Duration // that this process used

	arrived, up []time.Duration // when machines were switched on, and came up, since the begin; up is sorted at the end
	took        []time.Duration // from the one to the other, sorted at the end
}

// A Server is what one server did.
type Server struct {
	URL       string `json:"url"`
	Transfers int    `json:"transfers"` // that have ended
	Failed    int    `json:"failed"`
	Bytes     int64  `json:"bytes"` // of content
}

func newReport(c *Config) Report {
	r := Report{Machines: c.Machines, Loaders: []Server{}, Images: []Server{}, Failures: map[string]int{}, Retried: map[string]int{}}
	for _, t := range c.Loaders {
		r.Loaders = append(r.Loaders, Server{URL: t.String()})
	}
	for _, u := range c.Images {
		r.Images = append(r.Images, Server{URL: u.Redacted()})
	}
	return r
}

// server returns where the transfers of a step with a server are counted.
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

// When returns by when a part of the machines, 0 to 1, was up, from the begin of the run;
// ok is false if so many were not.
func (r *Report) When(part float64) (at time.Duration, ok bool) {
	return boot.When(r.up, r.Machines, part)
}

// Took returns within which time a part of the machines that came up did so, from when
// each was switched on. It is 0 if none came up.
func (r *Report) Took(part float64) time.Duration {
	at, _ := boot.When(r.took, len(r.took), part)
	return at
}

// Bytes returns the bytes of content that came, those of broken transfers included.
func (r *Report) Bytes() int64 { return r.Count.Loader + r.Count.Image }

// PerSecond returns the bytes a second of the whole run.
func (r *Report) PerSecond() float64 {
	return float64(r.Bytes()) / cmp.Or(r.Duration.Seconds(), 1)
}
