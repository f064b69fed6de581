package udp

import (
	"sync/atomic"
	"time"
)

// A pause lets one goroutine wait for its socket, and lets others end that wait. It uses the
// socket's read deadline for both, so a waiting Conn costs a parked goroutine but no thread.
type pause struct {
	socket interface{ SetReadDeadline(time.Time) error }
	state  atomic.Int32 // idle, waiting or woken
	armed  time.Time    // the socket's deadline, zero for none; used by the reader only
}

const (
	idle    = iota // no reader waits
	waiting        // the reader waits, or is about to
	woken          // wake was called since the reader last left
)

var longAgo = time.Unix(1, 0)

// enter prepares to wait until deadline. It reports false if wake was called, because then the
// reader must not wait.
//
// If the new deadline is later than the one that is set, enter keeps the old one: the wait then
// ends early, and the reader calls enter again. Servers move their deadline with every packet. This
// way they set a timer only once per timeout.
func (p *pause) enter(deadline time.Time) bool {
	if !deadline.IsZero() && (p.armed.IsZero() || deadline.Before(p.armed)) {
		p.arm(deadline)
	}
	// Only from this point on may wake set its own deadline, because otherwise enter would
	// overwrite it.
	return p.state.CompareAndSwap(idle, waiting) || p.state.Load() == waiting
}

// leave ends a wait and reports whether wake was called. This includes a call of wake while no
// reader waited, because the return of the reader serves that caller as well.
func (p *pause) leave() bool {
	return p.state.Load() != idle && p.state.Swap(idle) == woken
}

// expired must be called when the socket reports that its deadline has passed. It reports whether
// the caller's own deadline has passed.
func (p *pause) expired(deadline time.Time) bool {
	p.arm(time.Time{}) // with a deadline in the past, every further read would fail
	return !deadline.IsZero() && !time.Now().Before(deadline)
}

// wake ends the present wait, or prevents the next one if no reader waits.
func (p *pause) wake() {
	if p.state.Swap(woken) == waiting {
		p.socket.SetReadDeadline(longAgo) // fails only on a closed socket, where no reader waits
	}
}

func (p *pause) arm(deadline time.Time) {
	p.socket.SetReadDeadline(deadline) // if the socket is closed, the next read reports it
	p.armed = deadline
}
