package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/ownprocess"
	"github.com/haul-project/haul/internal/poolhooks"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

const (
	// maxErrors is how many different reasons a Report names.
	maxErrors = 32

	// otherErrors is the name under which a Report counts failures for any other reason.
	otherErrors = "other errors"

	// maxRefusals is how many transfers in a row must fail because the server has no open socket,
	// before the server counts as gone. It is multiplied by the number of transfers that may be
	// under way.
	maxRefusals = 10

	progressEvery = 200 * time.Millisecond

	// maxDallying is how many finished transfers may still answer repeats, in addition to the
	// transfers under way.
	maxDallying = 1024
)

// A run is one series of transfers, made by a pool.
type run struct {
	load        *Load // the load, with defaults in place of zeros
	server      netip.AddrPort
	target      tftpclient.Target // the server, and the file name, in which {} stands for a number
	references  *references
	warmup      bool
	pool        *tftpclient.Pool
	poolContext context.Context // context of each transfer of pool
	dice        *rand.Rand      // decides which datagrams are lost; guarded by mu
	slots       chan struct{}   // holds an element for each transfer under way, if there is a Rate

	began time.Time
	begun atomic.Int64  // number of the transfer to begin next
	broke chan struct{} // closed when the run is aborted

	mu       sync.Mutex
	count    counts           // guarded by mu
	refusals int64            // refused transfers in a row; guarded by mu
	errors   map[string]int64 // guarded by mu
	agreed   transfer.Options // guarded by mu
	broken   error            // why the run cannot continue; guarded by mu
	free     []*task          // guarded by mu
}

// counts holds the counters of a run.
type counts struct {
	done, failed, cut, late      int64
	packets                      int64
	resent, duplicates, timeouts int64
	ended                        time.Duration // time from the start of the run until the last transfer ended
	latency, first               histogram
}

func newRun(l *Load, server netip.AddrPort, refs *references, warmup bool) *run {
	r := &run{
		load: l, server: server, references: refs, warmup: warmup, target: l.Target,
		dice:   rand.New(rand.NewPCG(l.Seed, 0)),
		slots:  make(chan struct{}, l.Concurrency),
		broke:  make(chan struct{}),
		errors: make(map[string]int64),
	}
	r.target.Host, r.target.Port = server.Addr().String(), server.Port()
	offer := transfer.Options{BlockSize: l.BlockSize, Window: l.Window, HasSize: !l.NoOptions}
	r.pool = &tftpclient.Pool{
		Offer:     &offer,
		Transfers: l.Concurrency,
		Sockets:   l.Concurrency + min(maxDallying, max(0, ownprocess.OpenFiles()-ownprocess.SpareFiles-l.Concurrency)),
		Loops:     l.Loops,
		Limit:     l.Timeout,
		MinTimer:  l.MinTimer,
	}
	hooks := poolhooks.Hooks{NoDally: true}
	if l.Loss > 0 {
		hooks.Lose = r.lose
	}
	r.poolContext = poolhooks.With(context.Background(), hooks)
	return r
}

// lose decides whether to drop a datagram.
func (r *run) lose(bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dice.Float64() < r.load.Loss
}

// do makes the transfers.
func (r *run) do(ctx context.Context) (Report, error) {
	defer context.AfterFunc(ctx, r.stop)()
	defer time.AfterFunc(r.load.unheard, r.listen).Stop()
	cpu := ownprocess.CPUTime()
	r.began = time.Now()
	over := make(chan struct{})
	go func() {
		if r.load.Rate > 0 {
			r.pace()
		} else {
			for range r.load.Concurrency {
				r.next(r.began)
			}
		}
		r.pool.Wait()
		close(over)
	}()
	r.show(over)
	report := r.report(ownprocess.CPUTime() - cpu)
	_ = r.pool.Close() // no transfer is left, so its error does not matter
	if err := ctx.Err(); err != nil {
		return report, err
	}
	return report, r.broken
}

// next begins the next transfer, unless all have begun.
func (r *run) next(now time.Time) {
	if i, due, ok := r.claim(now); ok {
		r.start(i, due)
	}
}

// start begins the transfer with the given number.
func (r *run) start(i int64, due time.Time) {
	r.mu.Lock()
	var t *task
	if n := len(r.free); n > 0 {
		t = r.free[n-1]
		r.free = r.free[:n-1]
	}
	r.mu.Unlock()
	if t == nil {
		t = &task{run: r}
		t.done = t.finish
	}
	if err := t.begin(i, due); err != nil {
		if r.load.Rate > 0 {
			<-r.slots
		}
		if !errors.Is(err, tftpclient.ErrPoolClosed) {
			r.breakOff(err)
		}
	}
}

// pace begins transfers when they are due, as long as there are free slots.
func (r *run) pace() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case r.slots <- struct{}{}:
		case <-r.broke:
			return
		}
		i, due, ok := r.claim(time.Now())
		if !ok {
			return
		}
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-r.broke:
			return
		}
		r.start(i, due)
	}
}

// show calls Progress until the transfers are over. It closes the pool if the run is aborted.
func (r *run) show(over chan struct{}) {
	broke := r.broke
	var tick <-chan time.Time // nil without Progress, so it never fires
	if r.load.Progress != nil {
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		defer func() { r.load.Progress(r.progress()) }()
		tick = t.C
	}
	for {
		select {
		case <-over:
			return
		case <-broke:
			broke = nil
			_ = r.pool.Close() // closing the pool ends the transfers
		case <-tick:
			r.load.Progress(r.progress())
		}
	}
}

func (r *run) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{
		Elapsed:   time.Since(r.began),
		Warmup:    r.warmup,
		Done:      r.count.done,
		Failed:    r.count.failed,
		Transfers: int64(r.load.Transfers),
		Bytes:     r.pool.Stats().Bytes,
	}
}

// heard reports whether the server has answered any request.
func (r *run) heard() bool { return r.pool.Stats().Answered > 0 }

// listen aborts the run if the server has not answered. It is called after the time `unheard`.
func (r *run) listen() {
	if !r.heard() {
		r.breakOff(r.absent(transfer.ErrSilent))
	}
}

// stop ends the transfers under way. Any goroutine may call it.
func (r *run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.halt()
}

// halt is like stop for callers that hold mu.
func (r *run) halt() {
	if !r.stopped() {
		close(r.broke)
	}
}

// stopped reports whether the run is aborted.
func (r *run) stopped() bool {
	select {
	case <-r.broke:
		return true
	default:
		return false
	}
}

// breakOff ends the run for the given reason.
func (r *run) breakOff(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breakOffLocked(err)
}

// breakOffLocked is like breakOff for callers that hold mu.
func (r *run) breakOffLocked(err error) {
	if r.broken == nil {
		r.broken = err
	}
	r.halt()
}

// claim returns the number of the next transfer, and when it is due. It returns false if no more
// transfers should begin.
func (r *run) claim(now time.Time) (i int64, due time.Time, ok bool) {
	l := r.load
	i = r.begun.Add(1) - 1
	due = now
	if l.Rate > 0 {
		due = r.began.Add(dueAt(i, l.Rate))
	}
	over := l.Duration > 0 && i > 0 && max(due.Sub(r.began), now.Sub(r.began)) >= l.Duration
	if over || l.Transfers > 0 && i >= int64(l.Transfers) || r.stopped() {
		return 0, due, false
	}
	return i, due, true
}

// fault counts a failed transfer. The caller holds mu.
func (r *run) fault(err error) {
	text := err.Error()
	if _, ok := r.errors[text]; !ok && len(r.errors) >= maxErrors {
		text = otherErrors
	}
	r.errors[text]++
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return
	}
	if r.refusals++; !r.heard() || r.refusals >= maxRefusals*int64(r.load.Concurrency) {
		r.breakOffLocked(r.absent(syscall.ECONNREFUSED))
	}
}

// absent returns the error for a server that does not answer.
func (r *run) absent(why error) error {
	switch {
	case r.heard():
		return fmt.Errorf("the server at %v went away: %w", r.server, why)
	case errors.Is(why, syscall.ECONNREFUSED):
		return fmt.Errorf("no TFTP server listens at %v: %w", r.server, why)
	}
	return fmt.Errorf("nothing came from %v in %v (is a server there, and does a firewall let UDP through?): %w",
		r.server, r.load.unheard, why)
}

// report returns a Report with the values of the counters.
func (r *run) report(cpu time.Duration) Report {
	st := r.pool.Stats()
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.count
	rep := Report{
		Duration: c.ended, Transfers: c.done, Failed: c.failed, Cut: c.cut, Late: c.late,
		Errors: r.errors,
		Bytes:  st.Bytes, Packets: c.packets,
		Resent: c.resent, Duplicates: c.duplicates, Timeouts: c.timeouts,
		Latency: c.latency.latency(), First: c.first.latency(),
		BlockSize: transfer.DefaultBlockSize, Window: max(1, r.agreed.Window),
		CPU: cpu, Loops: r.load.Loops,
	}
	if r.agreed.BlockSize != 0 {
		rep.BlockSize = r.agreed.BlockSize
	}
	for _, idle := range st.Idle {
		if c.ended > 0 {
			rep.Busy = max(rep.Busy, 1-idle.Seconds()/c.ended.Seconds())
		}
	}
	return rep
}
