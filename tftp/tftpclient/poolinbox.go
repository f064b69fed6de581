package tftpclient

import (
	"sync"
	"sync/atomic"

	"github.com/haul-project/haul/udp"
)

// A poolInbox passes work from other goroutines to a loop.
type poolInbox struct {
	set  *udp.Set     // the set in whose Wait the loop sleeps
	load atomic.Int64 // number of transfers that wait in the loop or are under way
	turn poolWork     // the work that the method take returned last; only the loop uses it

	mu      sync.Mutex
	queued  poolWork // guarded by mu; the work that take has not returned yet
	awake   bool     // guarded by mu; the loop will check the inbox before it waits
	refusal error    // guarded by mu; why no more requests are accepted; nil while they are accepted
	exiting bool     // guarded by mu; the loop must exit
}

// A poolWork holds the work that other goroutines have passed to a loop.
type poolWork struct {
	requests  []*poolRequest
	worked    []*poolTransfer // transfers that workers handed back
	cancelled []poolTransferUse
}

func (w *poolWork) empty() bool {
	return len(w.requests)+len(w.worked)+len(w.cancelled) == 0
}

// clear forgets the work, but keeps the memory of the slices.
func (w *poolWork) clear() {
	clear(w.requests)
	clear(w.worked)
	clear(w.cancelled)
	*w = poolWork{w.requests[:0], w.worked[:0], w.cancelled[:0]}
}

// push passes a request to the loop.
func (in *poolInbox) push(q *poolRequest) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refusal != nil {
		return in.refusal
	}
	in.load.Add(1)
	in.queued.requests = append(in.queued.requests, q)
	in.wake()
	return nil
}

// wake makes the loop look at its inbox. The caller holds mu.
func (in *poolInbox) wake() {
	if !in.awake {
		in.awake = true
		in.set.Wake()
	}
}

// close makes the loop end all transfers for the given reason.
func (in *poolInbox) close(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refusal == nil {
		in.refusal = why
	}
	if !in.exiting {
		in.wake()
	}
}

// exit makes the loop exit. There must be no transfers left.
func (in *poolInbox) exit() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.exiting {
		in.exiting = true
		in.wake()
	}
}

// workDone passes a transfer from a worker back to the loop.
func (in *poolInbox) workDone(x *poolTransfer) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queued.worked = append(in.queued.worked, x)
	in.wake()
}

// cancel makes the loop end a transfer whose context has ended.
func (in *poolInbox) cancel(x *poolTransfer, q *poolRequest) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.exiting {
		return
	}
	in.queued.cancelled = append(in.queued.cancelled, poolTransferUse{x, q})
	in.wake()
}

// take returns the work that was passed to the loop. The loop calls clear once it has done the
// work. The error says why the loop must stop its transfers; it is nil if they may continue.
func (in *poolInbox) take() (*poolWork, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queued, in.turn = in.turn, in.queued
	return &in.turn, in.refusal
}

// refuse makes push fail with the error why, unless push already fails.
func (in *poolInbox) refuse(why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.refusal == nil {
		in.refusal = why
	}
}

// mayWait reports whether the loop may wait until it is woken, and whether it must exit. busy says
// that the loop has something to do, so it must not wait.
func (in *poolInbox) mayWait(busy bool) (wait, over bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.exiting {
		return false, true
	}
	if busy || !in.queued.empty() {
		return false, false
	}
	in.awake = false
	return true, false
}

// woke records that the loop no longer waits.
func (in *poolInbox) woke() {
	in.mu.Lock()
	in.awake = true
	in.mu.Unlock()
}
