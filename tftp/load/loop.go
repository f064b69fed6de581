package load

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

const (
	// maxBegins is how many transfers begin before what has come is looked at
	// again: the answers to the first must not wait for the last of thousands.
	maxBegins = 32

	// maxDallying is how many transfers that are done may still answer repeats,
	// in one loop, beside those under way.
	maxDallying = 1024

	// freshClock is how many members are served under one reading of the clock.
	freshClock = 8

	outBytes = 1 << 16 // room for the packets of one send
)

// A loop drives its share of the transfers. All of it belongs to one
// goroutine, once the run has begun.
type loop struct {
	run      *run
	load     *Load
	set      *udp.Set
	dice     *rand.Rand // decides which datagrams are lost
	slots    int        // transfers at once
	mayDally int        // transfers that are done, at once
	tasks    []*task    // by the member's tag
	free     []*task
	timers   timers
	out      []byte // what is being sent

	active   int // transfers under way
	dallying int
	over     bool // no more to begin
	pending  bool // there is one that is not due yet
	index    int64
	due      time.Time
	lossy    bool // something has been lost, and more may be

	idle  time.Duration // waited, while there was something to wait for
	count counts
}

// counts is what one loop has counted.
type counts struct {
	done, failed, cut, late      int64
	bytes, packets               int64
	resent, duplicates, timeouts int64
	ended                        time.Duration // the latest end of a transfer, since the run began
	latency, first               histogram
}

func newLoop(r *run, i int) (*loop, error) {
	set, err := udp.NewSet(r.load.socketConfig())
	if err != nil {
		return nil, err
	}
	slots := r.load.Concurrency / r.load.Loops
	if i < r.load.Concurrency%r.load.Loops {
		slots++
	}
	return &loop{
		run:      r,
		load:     r.load,
		set:      set,
		dice:     rand.New(rand.NewPCG(r.load.Seed, uint64(i))),
		slots:    slots,
		mayDally: min(maxDallying, max(0, openFiles()-spareFiles-r.load.Concurrency)/r.load.Loops),
		out:      make([]byte, 0, outBytes),
		lossy:    r.load.Loss > 0,
	}, nil
}

// busy returns the part of the time that the loop did not wait.
func (lp *loop) busy() float64 {
	if lp.count.ended <= 0 {
		return 0
	}
	return max(0, 1-lp.idle.Seconds()/lp.count.ended.Seconds())
}

// work runs until all transfers are done.
func (lp *loop) work() error {
	now := time.Now()
	for {
		if err := lp.begin(now); err != nil {
			return err
		}
		if lp.over && lp.active+lp.dallying == 0 {
			return nil
		}
		began := time.Now()
		members, err := lp.set.Wait(lp.deadline(began))
		now = time.Now()
		if !lp.over || lp.active > 0 {
			lp.idle += now.Sub(began)
		}
		if err != nil {
			return fmt.Errorf("load: wait for packets: %w", err)
		}
		for i, m := range members {
			if i%freshClock == freshClock-1 {
				now = time.Now()
			}
			lp.read(now, lp.tasks[m.Tag])
		}
		if err := lp.expire(now); err != nil {
			return err
		}
	}
}

// deadline returns until when there is nothing to do but to receive.
func (lp *loop) deadline(now time.Time) time.Time {
	var first time.Time
	if t, at := lp.timers.first(); t != nil {
		first = lp.run.began.Add(at)
	}
	earlier := func(at time.Time) {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	switch room := lp.active < lp.slots; {
	case room && lp.pending:
		earlier(lp.due)
	case room && !lp.over:
		earlier(now)
	}
	if !lp.run.heard.Load() {
		earlier(lp.run.began.Add(lp.load.unheard))
	}
	return first
}

// begin begins what is due, as far as there is room.
func (lp *loop) begin(now time.Time) error {
	for n := 0; n < maxBegins && lp.active < lp.slots && !lp.over; n++ {
		if !lp.pending {
			lp.index, lp.due, lp.pending = lp.run.claim(now)
			lp.over = !lp.pending
		}
		if !lp.pending || lp.due.After(now) {
			return nil
		}
		lp.pending = false
		if err := lp.start(now); err != nil {
			return err
		}
	}
	return nil
}

// start begins one transfer.
func (lp *loop) start(now time.Time) error {
	socket, err := lp.set.Open(lp.run.server)
	if err != nil {
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			err = fmt.Errorf("%w: raise the limit of open files (ulimit -n), or ask for fewer transfers at once", err)
		}
		return fmt.Errorf("load: %w", err)
	}
	t := lp.take()
	t.begin(now, lp.due, lp.index, socket)
	if lp.load.Rate > 0 && now.Sub(lp.due) > time.Millisecond {
		lp.count.late++
	}
	lp.active++
	lp.drive(now, t)
	return nil
}

// take returns a task ready for use.
func (lp *loop) take() *task {
	if n := len(lp.free); n > 0 {
		t := lp.free[n-1]
		lp.free = lp.free[:n-1]
		return t
	}
	t := &task{loop: lp, tag: len(lp.tasks)}
	lp.tasks = append(lp.tasks, t)
	return t
}

// read takes in what has come for a task.
func (lp *loop) read(now time.Time, t *task) {
	ms, err := t.socket.Read()
	for i := range ms {
		t.receive(now, &ms[i])
	}
	if err != nil {
		t.refused(err)
	}
	if len(ms) > 0 || err != nil {
		lp.drive(now, t)
	}
}

// drive sends what a task owes, and ends it if it is done.
func (lp *loop) drive(now time.Time, t *task) {
	t.send(now)
	if done, err := t.machine.Done(); done && !t.dallying {
		lp.finish(now, t, err)
	}
	if t.socket == nil {
		return
	}
	deadline := t.deadline()
	if deadline.IsZero() {
		lp.dallying-- // it has answered long enough
		lp.release(t)
		return
	}
	lp.timers.set(t, deadline.Sub(lp.run.began))
}

// expire looks at the tasks whose time has come.
func (lp *loop) expire(now time.Time) error {
	stopped := lp.run.stopped.Load()
	if stopped {
		lp.cut(now)
	}
	if !stopped && !lp.run.heard.Load() && now.Sub(lp.run.began) >= lp.load.unheard {
		return lp.run.absent(transfer.ErrSilent)
	}
	since := now.Sub(lp.run.began)
	for {
		t, at := lp.timers.first()
		if t == nil || at > since {
			return nil
		}
		if deadline := t.deadline(); deadline.After(now) {
			lp.timers.postpone(t, deadline.Sub(lp.run.began))
			continue
		}
		lp.timers.remove(t)
		// The answer may have come, and wait for its turn behind others' or
		// for this thread's: that the timer took for a loss what was none would
		// be the generator's doing.
		if lp.read(now, t); t.socket != nil {
			t.expire(now)
			lp.drive(now, t)
		}
	}
}

// cut breaks off what is under way.
func (lp *loop) cut(now time.Time) {
	lp.over, lp.pending = true, false
	for _, t := range lp.tasks {
		switch {
		case t.socket == nil:
			continue
		case t.dallying:
			lp.dallying--
		default:
			t.machine.Abort(transfer.NotDefined, "client was stopped", errStopped)
			t.send(now)
			lp.tally(t)
			lp.count.cut++
			lp.active--
			lp.count.ended = max(lp.count.ended, now.Sub(lp.run.began))
		}
		lp.release(t)
	}
}

// finish counts a transfer that is over, and has its slot taken by another.
func (lp *loop) finish(now time.Time, t *task, err error) {
	lp.tally(t)
	lp.active--
	c := &lp.count
	c.done++
	c.ended = max(c.ended, now.Sub(lp.run.began))
	if err == nil && !t.write && !lp.load.Pattern {
		err = t.compare()
	}
	if err != nil {
		c.failed++
		lp.run.failed.Add(1)
		lp.run.fault(err)
	} else {
		lp.run.refusals.Store(0)
		lp.run.agree(t.machine.Agreed())
		c.latency.add(now.Sub(t.scheduled))
	}
	lp.run.done.Add(1)
	// Where nothing gets lost, nobody asks for the last packet again.
	if err == nil && !t.write && lp.lossy && lp.dallying < lp.mayDally {
		t.dallying = true
		lp.dallying++
		return
	}
	lp.release(t)
}

// tally adds what a transfer has counted to the loop's counts.
func (lp *loop) tally(t *task) {
	st := t.machine.Stats()
	c := &lp.count
	c.resent += st.Resent
	c.duplicates += st.Duplicates
	c.timeouts += st.Timeouts
	c.packets += t.packets()
	if st.Resent+st.Duplicates+st.Timeouts > 0 {
		lp.lossy = true
	}
	if !t.heard.IsZero() {
		c.first.add(t.heard.Sub(t.began))
	}
}

// release takes back a task.
func (lp *loop) release(t *task) {
	lp.timers.remove(t)
	t.socket.Close()
	t.socket = nil
	lp.free = append(lp.free, t)
}

// moved counts bytes of file content.
func (lp *loop) moved(n int64) {
	lp.count.bytes += n
	lp.run.bytes.Add(n)
}

// lost decides whether a datagram gets lost.
func (lp *loop) lost() bool {
	return lp.load.Loss > 0 && lp.dice.Float64() < lp.load.Loss
}
