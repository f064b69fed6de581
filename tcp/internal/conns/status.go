package conns

import (
	"net"
	"sync"
	"sync/atomic"
)

// A status is the part of a connection's state that does not depend on the system.
type status struct {
	group *Group

	// state holds three values. The upper 32 bits are the generation, which grows with each
	// connection that uses this memory. The next bit says that the connection is closed. The lower
	// 31 bits count the calls that use the connection, plus one until Close. The call that drops
	// the last use closes the descriptor, so no call ever uses another connection's descriptor.
	state atomic.Uint64

	onWait func() // called before a call waits, so that the worker passes on the role of accepting; nil in a loop

	// The next three lines are ticks of the group's clock; 0 means never.
	began, phased       atomic.Int64 // when the connection was accepted, and when its current phase began
	moved               atomic.Int64 // when a byte was last received or sent
	readWait, writeWait atomic.Int64 // when the call that waits for bytes, or for room, began to wait
	phase               atomic.Int32
	idle                atomic.Bool // the handler waits for a request: the connection ends when the server begins to end

	reading, writing sync.Mutex // held while a call reads, or writes: so only one call does so at a time

	shaking shake // the state of the TLS handshake; guarded by reading
}

const (
	genShift  = 32
	closedBit = 1 << 31
)

// begin starts the next generation: the connection is open, and has one use, which Close ends.
func (c *status) begin() {
	c.state.Store(uint64(c.Gen()+1)<<genShift | 1)
}

// Gen returns the generation of the connection. It grows with each connection that uses this
// memory.
func (c *status) Gen() uint32 { return uint32(c.state.Load() >> genShift) }

// isClosed reports whether Close or Finish was called.
func (c *status) isClosed() bool { return uint32(c.state.Load())&closedBit != 0 }

// OnWait sets the function that is called before a call on the connection waits.
func (c *status) OnWait(f func()) { c.onWait = f }

// Draining reports whether the server is ending.
func (c *status) Draining() bool { return c.group.Draining() }

// Group returns the group of the connection.
func (c *status) Group() *Group { return c.group }

// FirstBytes passes the first bytes from the client to the program.
func (c *status) FirstBytes(h net.Conn, b []byte) {
	if report := c.group.FirstBytes; report != nil {
		report(h, b)
	}
}

// Heard records that the client has sent bytes.
func (c *status) Heard() {
	c.Moved()
	if c.phase.Load() == listening {
		c.phase.Store(open)
	}
}

// Moved records that bytes were moved in either direction.
func (c *status) Moved() {
	// Comparing first avoids most stores, which cost more than a load.
	if now := c.group.clock.Load(); c.moved.Load() != now {
		c.moved.Store(now)
	}
}

// MovedAt returns the variable that holds the tick in which a byte was last received or sent.
func (c *status) MovedAt() *atomic.Int64 { return &c.moved }

// IsSilent reports whether the connection is ready and its client has sent nothing yet.
func (c *status) IsSilent() bool { return c.phase.Load() == listening }

// HasSpoken reports whether the handler has received bytes from the client.
func (c *status) HasSpoken() bool { return c.phase.Load() == open }

// Listen begins the phase in which the client must send its first bytes.
func (c *status) Listen() { c.enter(listening) }

// Handshake begins the phase of a TLS handshake. [status.Opened] ends it.
func (c *status) Handshake() { c.enter(opening) }

// Opened records that the handshake is complete.
func (c *status) Opened() { c.enter(open) }

// enter begins a phase, and records when.
func (c *status) enter(phase int32) {
	c.phased.Store(c.group.clock.Load())
	c.phase.Store(phase)
}

// SetIdle records whether the connection waits for a request.
func (c *status) SetIdle(on bool) {
	if c.idle.Load() != on {
		c.idle.Store(on)
	}
}

// Awaits records that a loop waits for bytes from the client. No call waits in this case.
func (c *status) Awaits() { c.readWait.Store(c.group.clock.Load()) }

// AwaitsNone undoes Awaits.
func (c *status) AwaitsNone() { c.readWait.Store(0) }

// WaitsToRead reports whether a call waits for bytes from the client.
func (c *status) WaitsToRead() bool { return c.readWait.Load() != 0 }

// WaitsToWrite reports whether a call waits for room in the send buffer.
func (c *status) WaitsToWrite() bool { return c.writeWait.Load() != 0 }

// waits records in `since` that a call starts to wait. The caller sets `since` to 0 when the wait is
// over. A TLS handshake gives up its place while it waits for the client.
func (c *status) waits(since *atomic.Int64) {
	if c.onWait != nil {
		c.onWait()
	}
	if c.shaking == shakeHolds && since == &c.readWait {
		c.shaking = shakeWaits
		<-c.group.Handshakes
	}
	since.Store(c.group.clock.Load())
}

// expired returns the error of the timeout that the connection has exceeded, or nil.
func (c *status) expired(now int64) error {
	l := &c.group.limits
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

// A shake records whether a connection holds a place for a TLS handshake. It holds one while the
// server computes, but not while the server waits for the client: otherwise slow clients would keep
// out others.
type shake uint8

const (
	shakeNot   shake = iota // there is no handshake
	shakeHolds              // the handshake holds a place
	shakeWaits              // the handshake has given up its place while it waits for the client
)

// BeginHandshake records that the connection holds the place that [Group.TakeHandshake] took.
func (c *status) BeginHandshake() { c.shake(shakeHolds) }

// EndHandshake gives up the place, if the connection holds one.
func (c *status) EndHandshake() { c.shake(shakeNot) }

func (c *status) shake(to shake) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.shaking == shakeHolds {
		<-c.group.Handshakes
	}
	c.shaking = to
}

// shakesAgain takes a place again after the handshake has waited. It returns false if no
// place became free in time. The caller holds reading.
func (c *status) shakesAgain() bool {
	if !c.group.TakeHandshake() {
		return false
	}
	c.shaking = shakeHolds
	return true
}
