// Package bootload simulates machines that boot from real servers: each machine fetches a loader by
// TFTP and an image by HTTP, in the way that package boot decides. The files are not kept, but the
// package checks that all machines get the same content.
package bootload

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot"
	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/internal/poolhooks"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// These constants bound a [Config].
const (
	MaxMachines = 10_000
	MaxServers  = 64 // largest number of servers for the loader, and for the image

	// maxCauses is the largest number of different causes of failures that a Report lists. Further
	// causes are counted together, as otherCauses.
	maxCauses   = 32
	otherCauses = "other reasons"

	// maxDallying is the largest number of completed transfers of loaders that still answer
	// repeated packets.
	maxDallying = 1024

	// maxHeader is the largest size of the headers of an HTTP response, in bytes.
	maxHeader = 64 << 10

	progressEvery = 200 * time.Millisecond
)

// A Config says which machines boot from which servers.
type Config struct {
	Machines int // number of machines, 1 to MaxMachines
	Arrival  boot.Arrival

	// Plan describes the machines. Run sets its Loaders and Images.
	Plan boot.Plan

	// Loaders and Images are the URLs of the files. Several URLs stand for several servers behind
	// one address: each machine gets one of them. One of the two lists may be empty.
	Loaders []tftpclient.Target
	Images  []*url.URL // with the scheme http or https

	// Progress, if set, is called a few times a second, and never after Run has returned.
	Progress func(Progress)
}

// Progress says how far a run has progressed.
type Progress struct {
	Elapsed              time.Duration
	Machines, On         int // On is the number of machines that have been switched on so far
	Up, Failed           int
	LoaderBytes, ImBytes int64
}

// Check returns an error if c is invalid. The error names the flag of "haul bench boot".
func (c *Config) Check() error {
	switch {
	case c.Machines < 1 || c.Machines > MaxMachines:
		return fmt.Errorf("machines %d: must be 1 to %d", c.Machines, MaxMachines)
	case len(c.Loaders)+len(c.Images) == 0:
		return errors.New("loader and --image are both missing: name what the machines fetch")
	case len(c.Loaders) > MaxServers:
		return fmt.Errorf("loader is given %d times: %d are the most", len(c.Loaders), MaxServers)
	case len(c.Images) > MaxServers:
		return fmt.Errorf("image is given %d times: %d are the most", len(c.Images), MaxServers)
	}
	for _, t := range c.Loaders {
		if err := t.Check(); err != nil {
			return fmt.Errorf("loader %v: %w", t, err)
		}
		if t.Mode != transfer.Octet {
			return fmt.Errorf("loader %v: must be in mode octet", t)
		}
	}
	for _, u := range c.Images {
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("image %q: not of the form http://host/name", u.Redacted())
		}
	}
	return c.Plan.Check()
}

// A run holds the state of one call of [Config.Run].
type run struct {
	config *Config
	plan   boot.Plan
	pool   *tftpclient.Pool
	http   *http.Transport
	seed   maphash.Seed
	began  time.Time
	heard  atomic.Bool  // at least one server has answered
	loader atomic.Int64 // size of the loader; 0 until a machine has received all of it
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	report Report     // guarded by mu
	on     int        // number of machines switched on; guarded by mu
	want   [2]*digest // digests of the loader and the image that the first machine received; guarded by mu
}

// Run boots the machines, and reports how they came up. If machines fail, that is not an error. Run
// returns an error if the run could not be started or finished: because ctx has ended, because no
// server answers ([transfer.ErrSilent]) or listens (syscall.ECONNREFUSED), or because the process
// may not open enough sockets. The Report then covers the time until the error.
func (c *Config) Run(ctx context.Context) (Report, error) {
	if err := c.Check(); err != nil {
		return Report{}, err
	}
	if err := ownprocess.MayOpen(c.Machines+min(c.Machines, maxDallying), "sockets of machines"); err != nil {
		return Report{}, err
	}
	life, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{config: c, plan: c.Plan, seed: maphash.MakeSeed(), cancel: cancel}
	r.plan.Loaders, r.plan.Images = len(c.Loaders), len(c.Images)
	r.report = newReport(c)
	r.open()
	cpu := ownprocess.CPUTime()
	r.began = time.Now()
	stop := r.show()
	r.boot(life)
	stop()
	_ = r.pool.Close() // no transfer is in progress, so an error does not matter
	r.http.CloseIdleConnections()
	r.report.finish(time.Since(r.began), ownprocess.CPUTime()-cpu)
	if err := ctx.Err(); err != nil {
		return r.report, err
	}
	if life.Err() != nil {
		return r.report, context.Cause(life)
	}
	return r.report, nil
}

// newReport returns a report that holds only the number of machines and the URLs of the servers.
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

// open creates the clients for TFTP and HTTP.
func (r *run) open() {
	f := r.plan.Firmware
	r.pool = &tftpclient.Pool{
		Offer:     &transfer.Options{BlockSize: f.BlockSize, Window: f.Window, HasSize: true},
		Transfers: r.config.Machines,
		Sockets:   r.config.Machines,
		MinTimer:  f.Repeat,
	}
	r.http = &http.Transport{
		DialContext:            (&net.Dialer{}).DialContext, // Plan.Stall limits the time
		DisableKeepAlives:      true,                        // because each machine has a connection of its own
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// boot switches the machines on. It returns when each machine is up, has failed, or was
// interrupted.
func (r *run) boot(ctx context.Context) {
	ctx = poolhooks.With(ctx, poolhooks.Hooks{NoDally: true})
	var all sync.WaitGroup
	defer all.Wait()
	for n, at := range r.config.Arrival.Times(r.config.Machines, r.plan.Seed) {
		if !sleep(ctx, time.Until(r.began.Add(at))) {
			return
		}
		r.mu.Lock()
		r.on++
		r.report.arrived = append(r.report.arrived, at)
		r.mu.Unlock()
		c := &client{run: r, machine: r.plan.Machine(n), on: at}
		all.Go(func() { c.boot(ctx) })
	}
}

// sleep waits for the duration d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// show calls Progress at regular intervals until stop is called.
func (r *run) show() (stop func()) {
	if r.config.Progress == nil {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				r.config.Progress(r.progress())
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-ended }
}

func (r *run) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{
		Elapsed: time.Since(r.began), Machines: r.config.Machines, On: r.on, Up: len(r.report.up), Failed: r.report.Failed,
		LoaderBytes: r.report.Count.Loader, ImBytes: r.report.Count.Image,
	}
}

// ended adds a transfer that has ended to the counts of its server. It cancels the run if no server
// can be reached.
func (r *run) ended(step boot.Step, server int, how boot.Outcome, cause string, bytes int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.report.server(step, server)
	s.Transfers++
	s.Bytes += bytes
	if how == boot.Whole || how == boot.Vanished {
		return
	}
	s.Failed++
	count(r.report.Retried, cause)
	if r.heard.Load() {
		return
	}
	// If one of several servers is down, a machine may try that one first. So the run ends only
	// after each server has failed at least twice.
	servers := r.report.Loaders
	if step == boot.Fetch {
		servers = r.report.Images
	}
	for _, s := range servers {
		if s.Failed < 2 {
			return
		}
	}
	why := transfer.ErrSilent
	if errors.Is(err, syscall.ECONNREFUSED) {
		why = syscall.ECONNREFUSED
	}
	r.cancel(fmt.Errorf("no server answers (%s): %w", cause, why))
}

// left counts a machine that is up, has failed, or was interrupted.
func (r *run) left(c *client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := &r.report
	rep.Count.Add(c.machine.Count())
	switch c.machine.Order().Step {
	case boot.Up:
		rep.up = append(rep.up, c.up)
		rep.took = append(rep.took, c.up-c.on)
	case boot.Failed:
		rep.Failed++
		count(rep.Failures, c.machine.Cause())
	}
}

// count counts one failure under its cause. If causes already holds maxCauses causes, a new one is
// counted under otherCauses.
func count(causes map[string]int, cause string) {
	if _, ok := causes[cause]; !ok && len(causes) >= maxCauses {
		cause = otherCauses
	}
	causes[cause]++
}

// same reports whether a complete file is equal to the file that the first machine received.
func (r *run) same(step boot.Step, d digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, size := &r.want[0], &r.report.LoaderSize
	if step == boot.Fetch {
		first, size = &r.want[1], &r.report.ImageSize
	}
	if *first == nil {
		*first, *size = &d, d.size
		if step == boot.Load {
			r.loader.Store(d.size)
		}
	}
	return **first == d
}
