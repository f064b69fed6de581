package load

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

const (
	// maxErrors is how many different reasons a Report names.
	maxErrors = 32

	// otherErrors is what the rest is counted as.
	otherErrors = "other errors"

	// maxRefusals is how many transfers in a row, for each that may be under
	// way, a server may refuse by having no socket before it counts as gone.
	maxRefusals = 10

	progressEvery = 200 * time.Millisecond
)

// A run is one series of transfers. Its loops share what is here.
type run struct {
	load       *Load // with defaults
	server     netip.AddrPort
	references *references
	warmup     bool

	began    time.Time
	next     atomic.Int64 // number of the transfer to begin next
	heard    atomic.Bool  // the server has said something
	refusals atomic.Int64 // in a row
	stopped  atomic.Bool

	done, failed, bytes atomic.Int64 // for Progress

	mu     sync.Mutex
	errors map[string]int64
	agreed transfer.Options
	broken error // why the run cannot go on
	loops  []*loop
}

func newRun(l *Load, server netip.AddrPort, refs *references, warmup bool) *run {
	return &run{load: l, server: server, references: refs, warmup: warmup, errors: make(map[string]int64)}
}

// do makes the transfers.
func (r *run) do(ctx context.Context) (Report, error) {
	for i := range r.load.Loops {
		lp, err := newLoop(r, i)
		if err != nil {
			r.close()
			return Report{}, fmt.Errorf("load: %w", err)
		}
		r.loops = append(r.loops, lp)
	}
	defer r.close()
	stop := context.AfterFunc(ctx, r.stop)
	defer stop()
	cpu := cpuTime()
	r.began = time.Now()
	var wg sync.WaitGroup
	for _, lp := range r.loops {
		wg.Go(func() {
			if err := lp.work(); err != nil {
				r.breakOff(err)
			}
		})
	}
	r.show(&wg)
	report := r.report(cpuTime() - cpu)
	if err := ctx.Err(); err != nil {
		return report, fmt.Errorf("load: %w", err)
	}
	return report, r.broken
}

// show calls Progress until the loops are done.
func (r *run) show(wg *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	if r.load.Progress == nil {
		<-done
		return
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			r.load.Progress(r.progress())
			return
		case <-tick.C:
			r.load.Progress(r.progress())
		}
	}
}

func (r *run) progress() Progress {
	return Progress{
		Elapsed:   time.Since(r.began),
		Warmup:    r.warmup,
		Done:      r.done.Load(),
		Failed:    r.failed.Load(),
		Transfers: int64(r.load.Transfers),
		Bytes:     r.bytes.Load(),
	}
}

// close frees what the loops hold. No loop works any more.
func (r *run) close() {
	r.mu.Lock() // lest stop wakes what is closed
	defer r.mu.Unlock()
	for _, lp := range r.loops {
		_ = lp.set.Close() // nothing is lost with it
	}
	r.loops = nil
}

// stop ends the transfers under way. Any goroutine may call it.
func (r *run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped.Store(true)
	for _, lp := range r.loops {
		lp.set.Wake()
	}
}

// breakOff ends the run for the given reason.
func (r *run) breakOff(err error) {
	r.mu.Lock()
	if r.broken == nil {
		r.broken = err
	}
	r.mu.Unlock()
	r.stop()
}

// claim returns the number of the next transfer, and when it is due, unless
// there are no more to begin.
func (r *run) claim(now time.Time) (i int64, due time.Time, ok bool) {
	l := r.load
	i = r.next.Add(1) - 1
	due = now
	if l.Rate > 0 {
		due = r.began.Add(dueAt(i, l.Rate))
	}
	over := l.Duration > 0 && i > 0 && max(due.Sub(r.began), now.Sub(r.began)) >= l.Duration
	if over || l.Transfers > 0 && i >= int64(l.Transfers) || r.stopped.Load() {
		return 0, due, false
	}
	return i, due, true
}

// fault counts a failed transfer.
func (r *run) fault(err error) {
	text := err.Error()
	r.mu.Lock()
	if _, ok := r.errors[text]; !ok && len(r.errors) >= maxErrors {
		text = otherErrors
	}
	r.errors[text]++
	r.mu.Unlock()
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return
	}
	if n := r.refusals.Add(1); !r.heard.Load() || n >= maxRefusals*int64(r.load.Concurrency) {
		r.breakOff(r.absent(syscall.ECONNREFUSED))
	}
}

// absent says that nobody is there.
func (r *run) absent(why error) error {
	switch {
	case r.heard.Load():
		return fmt.Errorf("load: the server at %v went away: %w", r.server, why)
	case errors.Is(why, syscall.ECONNREFUSED):
		return fmt.Errorf("load: no TFTP server listens at %v: %w", r.server, why)
	}
	return fmt.Errorf("load: nothing came from %v in %v (is a server there, and does a firewall let UDP through?): %w",
		r.server, r.load.unheard, why)
}

// report sums up what the loops have counted.
func (r *run) report(cpu time.Duration) Report {
	rep := Report{
		Errors:    r.errors,
		BlockSize: transfer.DefaultBlockSize,
		Window:    1,
		CPU:       cpu,
		Loops:     len(r.loops),
	}
	if r.agreed.BlockSize != 0 {
		rep.BlockSize = r.agreed.BlockSize
	}
	rep.Window = max(1, r.agreed.Window)
	var latency, first histogram
	for _, lp := range r.loops {
		c := &lp.count
		rep.Transfers += c.done
		rep.Failed += c.failed
		rep.Cut += c.cut
		rep.Bytes += c.bytes
		rep.Packets += c.packets
		rep.Resent += c.resent
		rep.Duplicates += c.duplicates
		rep.Timeouts += c.timeouts
		rep.Late += c.late
		rep.Duration = max(rep.Duration, c.ended)
		rep.Busy = max(rep.Busy, lp.busy())
		latency.join(&c.latency)
		first.join(&c.first)
	}
	rep.Latency, rep.First = latency.latency(), first.latency()
	return rep
}

// agree notes what was agreed on in a transfer that went well.
func (r *run) agree(o transfer.Options) {
	r.mu.Lock()
	r.agreed = o
	r.mu.Unlock()
}

// socketConfig returns what kind of sockets a load needs.
func (l *Load) socketConfig() udp.SetConfig {
	// Whatever was asked for, an OACK or an ERROR may come.
	const shortest = 1024
	return udp.SetConfig{
		Bulk:     l.Window > 1,
		Datagram: max(shortest, l.BlockSize+transfer.HeaderSize),
	}
}

// references remembers what the first download of each file was: a sum of
// hashes of its blocks, which takes 8 bytes whatever the file's size, and comes
// out the same in whatever order they come.
type references struct {
	seed maphash.Seed
	mu   sync.Mutex
	sums map[reference]digest
}

// A reference tells downloads apart that may differ: blocks of another size
// have other hashes.
type reference struct {
	name  int64
	block int
}

type digest struct {
	sum  uint64
	size int64
}

func newReferences() *references {
	return &references{seed: maphash.MakeSeed(), sums: make(map[reference]digest)}
}

// block returns what one block adds to a file's sum.
func (r *references) block(off int64, data []byte) uint64 {
	return scramble(maphash.Bytes(r.seed, data) + scramble(uint64(off)))
}

// compare reports whether a whole file is as the first of its name was.
func (r *references) compare(k reference, c digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	want, ok := r.sums[k]
	if !ok {
		r.sums[k] = c
		return true
	}
	return c == want
}
