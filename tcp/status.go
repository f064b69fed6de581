package tcp

import (
	"sync"
	"sync/atomic"
	"time"
)

// A shared is what the connections of one run have in common.
type shared struct {
	began      time.Time
	tick       time.Duration
	ticks      limits
	firstPhase int32
	clock      atomic.Int64 // ticks since began, and one
	drains     atomic.Bool  // the server ends

	handshakes    chan struct{} // a place for each
	handshakeTime time.Duration
	lastCall      time.Duration
	over          <-chan struct{} // closed when connections are ended

	counts *counts
}

func (sh *shared) isDraining() bool { return sh.drains.Load() }

// ago returns for how long a connection has been there that began at a tick.
func (sh *shared) ago(tick int64) time.Duration {
	return time.Duration(max(0, sh.clock.Load()-tick)) * sh.tick
}

// counts is the part of Counters that is kept here.
type counts struct {
	refused, timedOut, acceptErrors, badHandshakes, panics, cut atomic.Uint64
}

// A status is what a connection is doing.
type status struct {
	shared *shared

	// state holds, from the top, which of its connections this is (32 bits);
	// whether it is closed (1 bit); and how many calls use it, with one for the
	// time before Close (31 bits). The call that drops the last use closes the
	// descriptor, so no call ever meets another connection's.
	state atomic.Uint64

	onWait func() // called before a call waits; set by the worker that serves

	// In ticks of the run's clock; 0 for never.
	began, phased       atomic.Int64 // when it was accepted, and came to its phase
	moved               atomic.Int64 // when a byte was moved last
	readWait, writeWait atomic.Int64 // since when a call waits
	phase               atomic.Int32
	idle                atomic.Bool // in WaitReadable

	reading, writing sync.Mutex // one call reads at a time, and one writes

	shaking shake // reading: in a TLS handshake
}

// The phases of a connection.
const (
	opening   int32 = iota // for the PROXY header and TLS
	listening              // the client has sent nothing yet
	open
)

const (
	genShift  = 32
	closedBit = 1 << 31
)

// begin makes c ready for its next connection.
func (c *status) begin() {
	gen := uint32(c.state.Load()>>genShift) + 1
	c.state.Store(uint64(gen)<<genShift | 1)
}

// hold keeps a connection of the ring until drop. It reports false if the connection is
// ending. The roster's mu is held.
func (c *status) hold() bool {
	for {
		s := c.state.Load()
		if s&closedBit != 0 {
			return false
		}
		if c.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// isClosed reports whether Close was called.
func (c *status) isClosed() bool { return uint32(c.state.Load())&closedBit != 0 }

// heard notes that the client has sent bytes.
func (c *status) heard() {
	c.sent()
	if c.phase.Load() == listening {
		c.phase.Store(open)
	}
}

// sent notes that bytes were sent.
func (c *status) sent() {
	if now := c.shared.clock.Load(); c.moved.Load() != now { // a store is dearer
		c.moved.Store(now)
	}
}

// enter begins a phase.
func (c *status) enter(phase int32) {
	c.phased.Store(c.shared.clock.Load())
	c.phase.Store(phase)
}

// waits notes that a call starts to wait. The call sets since to 0 when it returns.
func (c *status) waits(since *atomic.Int64) {
	if c.onWait != nil {
		c.onWait()
	}
	if c.shaking == shakeHolds && since == &c.readWait {
		c.shaking = shakeWaits
		<-c.shared.handshakes
	}
	since.Store(c.shared.clock.Load())
}

// A shake says whether a connection has one of the places for TLS handshakes. It has one
// while the server computes, and none while it waits for its client: slow clients would
// keep out others.
type shake uint8

const (
	shakeNot   shake = iota // there is no handshake
	shakeHolds              // it has a place
	shakeWaits              // it gave its place back, to wait
)

// shake starts or ends a handshake.
func (c *status) shake(to shake) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.shaking == shakeHolds {
		<-c.shared.handshakes
	}
	c.shaking = to
}

// shakesAgain reports whether a handshake that has waited has a place again. reading
// is held.
func (c *status) shakesAgain() bool {
	if !c.shared.takeHandshake() {
		return false
	}
	c.shaking = shakeHolds
	return true
}

// takeHandshake takes one of the places for handshakes. It waits for one at most as long as
// a handshake may take.
func (sh *shared) takeHandshake() bool {
	select {
	case sh.handshakes <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(sh.handshakeTime)
	defer t.Stop()
	select {
	case sh.handshakes <- struct{}{}:
		return true
	case <-t.C:
	case <-sh.over:
	}
	return false
}

// limits are the times of a Server, in ticks of its clock; 0 for none.
type limits struct {
	handshake, firstByte, idle int64
}

// expired returns the timeout that a connection has exceeded, or nil.
func (l *limits) expired(c *status, now int64) error {
	over := func(since, limit int64) bool { return limit > 0 && now-since > limit }
	switch c.phase.Load() {
	case opening:
		if over(c.phased.Load(), l.handshake) {
			return ErrHandshake
		}
		return nil
	case listening:
		if c.readWait.Load() != 0 && over(c.phased.Load(), l.firstByte) {
			return ErrSilent
		}
	}
	for _, since := range []int64{c.readWait.Load(), c.writeWait.Load()} {
		if since != 0 && over(max(since, c.moved.Load()), l.idle) {
			return ErrIdle
		}
	}
	return nil
}
