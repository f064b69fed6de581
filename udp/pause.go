package udp

import (
	"sync/atomic"
	"time"
)

// A pause lets one goroutine wait for its socket and others end that wait. The socket's read
// deadline does both, so a waiting Conn costs a parked goroutine and no thread.
type pause struct {
	socket interface{ SetReadDeadline(time.Time) error }
	state  atomic.Int32 // idle, waiting or woken
	armed  time.Time    // the socket's deadline, zero for none; reader only
}

const (
	idle    = iota // no reader waits
	waiting        // the reader waits, or is about to
	woken          // wake was called since the reader last left
)

var longAgo = time.Unix(1, 0)

// enter prepares to wait until deadline. It reports false if wake was called, so that there is
// nothing to wait for.
//
// If the new deadline is later than the one that is set, enter does not set it: the wait then ends
// early, and the reader comes back. Servers move their deadline with every packet; this way they
// touch a timer only once per timeout.
func (p *pause) enter(deadline time.Time) bool {
	if !deadline.IsZero() && (p.armed.IsZero() || deadline.Before(p.armed)) {
		p.arm(deadline)
	}
	// wake must not set its own deadline before this point, or it would be overwritten.
	return p.state.CompareAndSwap(idle, waiting) || p.state.Load() == waiting
}

// leave ends a wait and reports whether wake was called. It also consumes a wake from outside a
// wait, since this return serves that caller as well.
func (p *pause) leave() bool {
	return p.state.Load() != idle && p.state.Swap(idle) == woken
}

// expired must be called when the socket reports that its deadline has passed. It reports whether
// the caller's own deadline has passed.
func (p *pause) expired(deadline time.Time) bool {
	p.arm(time.Time{}) // a deadline in the past would fail every further read
	return !deadline.IsZero() && !time.Now().Before(deadline)
}

// wake ends the present wait, or else prevents the next one.
func (p *pause) wake() {
	if p.state.Swap(woken) == waiting {
		p.socket.SetReadDeadline(longAgo) // fails only on a closed socket, where no reader waits
	}
}

func (p *pause) arm(deadline time.Time) {
	p.socket.SetReadDeadline(deadline) // if the socket is closed, the next read reports it
	p.armed = deadline
}
