package udp

import (
	"sync/atomic"
	"time"
)

// A pause lets one goroutine wait for its socket, and lets other goroutines end that wait. Both the
// wait and its end use the socket's read deadline, so a waiting Conn costs a parked goroutine but
// no thread.
type pause struct {
	socket interface{ SetReadDeadline(time.Time) error }
	state  atomic.Int32 // idle, waiting or woken
	armed  time.Time    // the deadline that is set on the socket, or zero if none is set; only the reader uses it
}

const (
	idle    = iota // the reader does not wait
	waiting        // the reader waits, or is about to
	woken          // wake was called, and the reader has not called leave since
)

var longAgo = time.Unix(1, 0) // a read deadline that has passed, so that a read does not wait

// enter prepares the reader for a wait until deadline. It returns false if wake was called: the
// reader must then not wait.
//
// If deadline is later than the deadline that is set on the socket, enter leaves the earlier one
// set. The wait then ends early, and the reader calls enter again. Servers move their deadline with
// every packet; in this way they set a timer only once per timeout.
func (p *pause) enter(deadline time.Time) bool {
	if !deadline.IsZero() && (p.armed.IsZero() || deadline.Before(p.armed)) {
		p.arm(deadline)
	}
	// wake may set its own deadline only once the state is waiting. Before that, enter would
	// overwrite it.
	return p.state.CompareAndSwap(idle, waiting) || p.state.Load() == waiting
}

// leave ends a wait, and reports whether wake was called. That includes a call of wake while the
// reader did not wait: the reader now returns, as the caller of wake wanted.
func (p *pause) leave() bool {
	return p.state.Load() != idle && p.state.Swap(idle) == woken
}

// expired must be called when the deadline of the socket has passed. It reports whether the
// caller's own deadline, which may be later, has passed too.
func (p *pause) expired(deadline time.Time) bool {
	p.arm(time.Time{}) // with a deadline in the past, every further read would fail
	return !deadline.IsZero() && !time.Now().Before(deadline)
}

// wake ends the current wait. If the reader does not wait, it prevents the next wait.
func (p *pause) wake() {
	if p.state.Swap(woken) == waiting {
		// An error means that the socket is closed, and then the reader does not wait.
		p.socket.SetReadDeadline(longAgo)
	}
}

func (p *pause) arm(deadline time.Time) {
	p.socket.SetReadDeadline(deadline) // an error means that the socket is closed; the next read returns it
	p.armed = deadline
}
