package tftpclient

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/tftp/internal/fileio"
)

const (
	// maxPoolBegins is how many transfers begin before the loop receives again. The answers to the
	// first ones must not wait until the last of thousands has begun.
	maxPoolBegins = 32

	// freshClock is how many sockets are served before the clock is read again.
	freshClock = 8
)

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
			// The loop runs until workers have handed back their transfers, but must not spin.
			time.Sleep(time.Millisecond)
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

// takeInbox handles everything that other goroutines have put into the inbox.
func (lp *poolLoop) takeInbox(now time.Time) {
	work, shut := lp.inbox.take()
	for _, q := range work.requests {
		lp.sockets.enqueue(q)
	}
	for _, x := range work.worked {
		lp.worked(now, x)
	}
	for _, c := range work.cancelled {
		if x := c.transfer; x.request == c.request && !x.ended {
			x.abort("transfer was cancelled", c.request.ctx.Err())
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

// worked handles a transfer that a worker has handed back.
func (lp *poolLoop) worked(now time.Time, x *poolTransfer) {
	what := x.job
	x.job = fileio.NoJob
	if x.ended {
		lp.reportEnd(now, x)
		return
	}
	x.worked(now, what)
	lp.advance(now, x)
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
		x.abort("client was stopped", why)
		lp.advance(now, x)
		if x.dallying {
			lp.stopDallying(x)
		}
	}
	lp.refuse()
}

// refuse ends all waiting requests with the error lp.stopped.
func (lp *poolLoop) refuse() {
	for q := lp.sockets.dequeue(); q != nil; q = lp.sockets.dequeue() {
		lp.complete(q, Result{}, lp.stopped)
	}
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
		lp.advance(now, x)
	}
}

// nextWake returns the time until which the loop may wait for packets, and whether the loop must
// exit.
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
		// The answer may have arrived already, while the loop handled packets of other transfers,
		// or while its thread could not run. Without this read, the loop itself would cause a
		// needless timeout.
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
