package tftpclient

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

const (
	// maxPoolBegins is how many transfers begin before the loop receives again. The answers to the
	// first ones must not wait until the last of thousands has begun.
	maxPoolBegins = 32

	// freshClock is how many sockets are served before the clock is read again.
	freshClock = 8

	poolBatchMessages = 4       // messages sent in one call
	poolBatchBytes    = 1 << 16 // bytes sent in one call
)

// A poolLoop runs its share of a pool's transfers. Its goroutine owns the fields, except the inbox
// and the atomic ones.
type poolLoop struct {
	pool      *poolCommon
	set       *udp.Set
	began     time.Time
	slots     int // how many transfers may be under way at once
	sockets   poolSockets
	free      []*poolTransfer
	timers    poolTimers
	out       *packetio.Batch
	conn      memberConn // the connection of out
	active    int        // transfers under way
	dallying  int
	lossy     bool // some packet was lost, so more may be lost
	errors    packetio.RateLimit
	expiredTo time.Duration // time since began up to which the timers were checked
	stopped   error         // why no transfer can continue; nil while they can
	inbox     poolInbox

	answered atomic.Int64
	bytes    atomic.Int64
	idled    atomic.Int64 // nanoseconds
}

func newPoolLoop(p *poolCommon, slots, sockets int) (*poolLoop, error) {
	c := p.client
	bulk, longest := !c.NoOptions && c.Window != 1, c.BlockSize
	if o := p.offered; o != nil {
		bulk, longest = o.Window > 1, max(o.BlockSize, transfer.DefaultBlockSize)
	}
	datagram := 0
	if longest > 0 {
		datagram = max(shortestDatagram, longest+transfer.HeaderSize)
	}
	set, err := udp.NewSet(udp.SetConfig{Bulk: bulk, Datagram: datagram})
	if err != nil {
		return nil, err
	}
	lp := &poolLoop{
		pool: p, set: set, began: time.Now(), slots: slots,
		lossy: !p.hooks.NoDally || p.hooks.Lose != nil,
	}
	lp.inbox.set, lp.inbox.awake = set, true
	lp.sockets = newPoolSockets(socketSettings{
		set: set, private: p.private, manyPerServer: p.manyPerServer, stopDallying: lp.stopDallying,
	}, sockets)
	lp.conn.settings = &p.poolSettings
	lp.out = packetio.NewBatch(&lp.conn, poolBatchMessages, poolBatchBytes)
	return lp, nil
}

// shortestDatagram is the smallest room for a received datagram, in bytes. It is enough for an OACK
// or an ERROR, which may answer any request.
const shortestDatagram = 1024

// run runs the loop.
func (lp *poolLoop) run() {
	defer lp.set.Close()
	now := time.Now()
	for {
		lp.takeInbox(now)
		lp.begin(now)
		deadline, over := lp.nextWake()
		if over {
			return
		}
		waiting := time.Now()
		members, err := lp.set.Wait(deadline)
		now = time.Now()
		if lp.active > 0 || lp.dallying == 0 {
			lp.idled.Add(int64(now.Sub(waiting)))
		}
		lp.inbox.woke()
		if err != nil {
			lp.stop(now, fmt.Errorf("wait for packets: %w", err))
			time.Sleep(time.Millisecond) // the workers still have transfers to hand back
		}
		for i, m := range members {
			if i%freshClock == freshClock-1 {
				now = time.Now()
			}
			lp.read(now, lp.sockets.list[m.Tag])
		}
		lp.expire(now)
		lp.sockets.forget(now)
	}
}

// nextWake returns until when the loop may wait for packets, and whether it must end.
func (lp *poolLoop) nextWake() (deadline time.Time, over bool) {
	if t, at := lp.timers.first(); t != nil {
		deadline = lp.began.Add(at)
	}
	if at := lp.sockets.nextFree(); !at.IsZero() && (deadline.IsZero() || at.Before(deadline)) {
		deadline = at
	}
	wait, over := lp.inbox.mayWait(lp.active < lp.slots && lp.sockets.startable())
	if !wait && !over {
		return time.Unix(1, 0), false // receive without waiting, then continue
	}
	return deadline, over
}

// takeInbox handles everything that other goroutines have put into the inbox.
func (lp *poolLoop) takeInbox(now time.Time) {
	work, shut := lp.inbox.take()
	for _, q := range work.requests {
		lp.sockets.enqueue(q)
	}
	for _, x := range work.worked {
		x.worked(now)
	}
	for _, c := range work.cancelled {
		if x := c.transfer; x.request == c.request && !x.ended {
			x.abort(now, "transfer was cancelled", c.request.ctx.Err())
			lp.advance(now, x)
		}
	}
	work.clear()
	if shut != nil && lp.stopped == nil {
		lp.stop(now, shut)
	}
	if lp.stopped != nil {
		lp.refuse()
	}
}

// stop ends all transfers for the given reason.
func (lp *poolLoop) stop(now time.Time, why error) {
	if lp.stopped != nil {
		return
	}
	lp.stopped = why
	lp.inbox.refuse(why)
	for _, x := range lp.sockets.transfers() {
		if x.ended {
			lp.stopDallying(x) // x is over and only dallies
			continue
		}
		x.abort(now, "client was stopped", why)
		lp.advance(now, x)
		if x.dallying {
			lp.stopDallying(x)
		}
	}
	lp.refuse()
}

// refuse ends all waiting requests.
func (lp *poolLoop) refuse() {
	for q := lp.sockets.dequeue(); q != nil; q = lp.sockets.dequeue() {
		lp.complete(q, Result{}, lp.stopped)
	}
}

// complete reports the end of a transfer to its caller. Until then the transfer counts as pending.
func (lp *poolLoop) complete(q *poolRequest, res Result, err error) {
	lp.inbox.load.Add(-1)
	q.end(res, err)
	lp.pool.pending.leave()
}

// begin begins waiting transfers while there is room.
func (lp *poolLoop) begin(now time.Time) {
	for n := 0; n < maxPoolBegins && lp.active < lp.slots && lp.stopped == nil; {
		q, socket, err := lp.sockets.next()
		switch {
		case q == nil:
			return
		case err != nil && lp.active == 0:
			lp.complete(q, Result{}, err)
			continue
		case err != nil:
			lp.sockets.enqueueFirst(q)
			lp.slots, lp.sockets.most = lp.active, max(1, lp.sockets.open)
			return
		}
		n++
		lp.active++
		x := lp.take()
		x.request, x.server = q, q.server()
		socket.add(x)
		x.begin(now)
	}
}

// take returns a transfer ready for use.
func (lp *poolLoop) take() *poolTransfer {
	if n := len(lp.free); n > 0 {
		x := lp.free[n-1]
		lp.free = lp.free[:n-1]
		return x
	}
	return &poolTransfer{loop: lp}
}

// advance sends the packets that are due for a transfer, and ends it if it is done.
func (lp *poolLoop) advance(now time.Time, x *poolTransfer) {
	if x.requested.IsZero() {
		return // the transfer ended before it began
	}
	if x.member != nil {
		x.send(now)
	}
	if done, err := x.machine.Done(); done && !x.ended {
		lp.end(now, x, err)
	}
	if x.member == nil {
		return
	}
	deadline := x.deadline()
	if x.ended && deadline.IsZero() {
		lp.stopDallying(x) // x has dallied long enough
		return
	}
	if deadline.IsZero() {
		lp.timers.remove(x)
		return
	}
	// A deadline that has already passed is checked in the next turn, after the inbox.
	lp.timers.set(x, max(deadline.Sub(lp.began), lp.expiredTo+1))
}

// expire handles the transfers whose deadline has passed.
func (lp *poolLoop) expire(now time.Time) {
	since := now.Sub(lp.began)
	lp.expiredTo = since
	for {
		x, at := lp.timers.first()
		if x == nil || at > since {
			return
		}
		deadline := x.deadline()
		switch {
		case deadline.After(now):
			lp.timers.postpone(x, deadline.Sub(lp.began))
			continue
		case deadline.IsZero() && !x.ended:
			lp.timers.remove(x) // the transfer waits for a worker
			continue
		}
		lp.timers.remove(x)
		// The answer may have arrived already, and wait for packets of other transfers to be
		// handled, or for this thread to run. Without this read, the loop itself would be the cause
		// of a needless timeout.
		before := x.request
		if x.member != nil {
			lp.read(now, lp.sockets.of(x))
		}
		if x.member != nil && x.request == before {
			x.expire(now)
			lp.advance(now, x)
		}
	}
}

// end records the end of a transfer. A worker closes its files.
func (lp *poolLoop) end(now time.Time, x *poolTransfer, err error) {
	x.ended, x.err = true, err
	if x.stop != nil {
		x.stop()
		x.stop = nil
	}
	x.noteResult(now)
	if st := x.result.Stats; st.Resent+st.Duplicates+st.Timeouts > 0 {
		lp.lossy = true
	}
	if err == nil && !x.request.write && lp.lossy && lp.dallying < maxPoolDallying && lp.stopped == nil {
		x.dallying = true
		lp.dallying++
		lp.pool.pending.add()
		lp.sockets.dally(now, x)
	} else {
		lp.detach(now, x)
	}
	if x.job == fileio.NoJob {
		lp.reportEnd(now, x)
	}
}

// reportEnd reports the end of a transfer once its files are closed.
func (lp *poolLoop) reportEnd(now time.Time, x *poolTransfer) {
	if x.upload != nil {
		x.submit(fileio.CloseJob)
		return
	}
	q := x.request
	lp.active--
	if lp.stopped == nil && x.nextAttempt() {
		lp.sockets.enqueueFirst(q)
		lp.recycle(x)
		return
	}
	res, err := x.result, x.err
	if !x.dallying {
		lp.recycle(x)
	} else {
		x.reported = true
	}
	lp.complete(q, res, err)
}

// stopDallying recycles a download that has dallied.
func (lp *poolLoop) stopDallying(x *poolTransfer) {
	if !x.dallying {
		return
	}
	lp.detach(time.Now(), x)
	x.dallying = false
	lp.dallying--
	lp.pool.pending.leave()
	if x.reported {
		lp.recycle(x)
	}
}

// detach removes a transfer from its socket.
func (lp *poolLoop) detach(now time.Time, x *poolTransfer) {
	lp.timers.remove(x)
	if x.member != nil {
		lp.sockets.remove(now, x)
	}
}

func (lp *poolLoop) recycle(x *poolTransfer) {
	x.clear()
	if len(lp.free) < lp.slots {
		lp.free = append(lp.free, x)
	}
}
