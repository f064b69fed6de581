package udp

import (
	"sync/atomic"
	"time"
)

// A pause is how one goroutine waits for its socket, and how others end the
// wait. The socket's own read deadline does both, so that a waiting Conn costs
// a parked goroutine and no thread.
type pause struct {
	socket interface{ SetReadDeadline(time.Time) error }
	state  atomic.Int32 // idle, waiting or woken
	armed  time.Time    // the deadline the socket has, zero for none; reader only
}

const (
	idle    = iota // no reader waits
	waiting        // the reader waits, or is about to
	woken          // wake was called since the reader last left
)

var longAgo = time.Unix(1, 0)

// enter prepares to wait until deadline. It reports false if there is nothing
// to wait for, because wake was called.
//
// A later deadline than the armed one is not armed: the wait then ends early,
// and the reader comes back. Servers push their deadline on with every packet;
// this way they touch a timer once per timeout instead.
func (p *pause) enter(deadline time.Time) bool {
	if !deadline.IsZero() && (p.armed.IsZero() || deadline.Before(p.armed)) {
		p.arm(deadline)
	}
	// Only now may wake set a deadline of its own, or it would be lost.
	return p.state.CompareAndSwap(idle, waiting) || p.state.Load() == waiting
}

// leave ends a wait and reports whether wake was called. It also consumes a
// wake that came outside a wait: this return serves its caller as well.
func (p *pause) leave() bool {
	return p.state.Load() != idle && p.state.Swap(idle) == woken
}

// expired is to be called when the socket reports that its deadline passed. It
// reports whether deadline, the one the caller meant, has.
func (p *pause) expired(deadline time.Time) bool {
	p.arm(time.Time{}) // a deadline in the past would fail every further read
	return !deadline.IsZero() && !time.Now().Before(deadline)
}

// wake ends the present wait, or else keeps the next from beginning.
func (p *pause) wake() {
	if p.state.Swap(woken) == waiting {
		p.socket.SetReadDeadline(longAgo) // fails only on a closed socket, where no reader waits
	}
}

func (p *pause) arm(deadline time.Time) {
	p.socket.SetReadDeadline(deadline) // a closed socket says so at the read that follows
	p.armed = deadline
}
