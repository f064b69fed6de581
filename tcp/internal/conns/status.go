package conns

import (
	"net"
	"sync"
	"sync/atomic"
)

// A status is the state of a connection.
type status struct {
	group *Group

	// state holds, from the top bits, the generation of the connection (32 bits), which grows with
	// each use of the memory; whether it is closed (1 bit); and how many calls use it, plus one
	// until Close (31 bits). The call that drops the last use closes the descriptor, so no call
	// ever uses another connection's descriptor.
	state atomic.Uint64

	onWait func() // called before a call waits; set by the worker that serves

	// These are ticks of the group's clock; 0 means never.
	began, phased       atomic.Int64 // when it was accepted, and when its phase began
	moved               atomic.Int64 // when a byte was moved last
	readWait, writeWait atomic.Int64 // when a waiting call began to wait
	phase               atomic.Int32
	idle                atomic.Bool // waits for a request: the connection ends when the server does

	reading, writing sync.Mutex // held by the one call that reads, or writes

	shaking shake // reading: in a TLS handshake
}

const (
	genShift  = 32
	closedBit = 1 << 31
)

// begin starts the next generation.
func (c *status) begin() {
	c.state.Store(uint64(c.Gen()+1)<<genShift | 1)
}

// Gen returns the generation, which grows with each connection that uses this memory.
func (c *status) Gen() uint32 { return uint32(c.state.Load() >> genShift) }

// isClosed reports whether Close was called.
func (c *status) isClosed() bool { return uint32(c.state.Load())&closedBit != 0 }

// OnWait sets the function that is called before a call of the connection waits.
func (c *status) OnWait(f func()) { c.onWait = f }

// Draining reports whether the server is ending.
func (c *status) Draining() bool { return c.group.Draining() }

// Group returns the group of the connection.
func (c *status) Group() *Group { return c.group }

// FirstBytes reports the first bytes of the client to the program.
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
	if now := c.group.clock.Load(); c.moved.Load() != now { // a store costs more than a load
		c.moved.Store(now)
	}
}

// MovedAt returns the tick in which a byte was last moved.
func (c *status) MovedAt() *atomic.Int64 { return &c.moved }

// IsSilent reports whether the handler waits for the first bytes of the client.
func (c *status) IsSilent() bool { return c.phase.Load() == listening }

// HasSpoken reports whether the handler has received bytes from the client.
func (c *status) HasSpoken() bool { return c.phase.Load() == open }

// Listen begins the time in which the client must send its first bytes.
func (c *status) Listen() { c.enter(listening) }

// Handshake begins the time for a TLS handshake. [status.Opened] ends it.
func (c *status) Handshake() { c.enter(opening) }

// Opened ends the handshake.
func (c *status) Opened() { c.enter(open) }

// enter begins a phase.
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

// Awaits records that a driver waits for the client without a waiting call.
func (c *status) Awaits() { c.readWait.Store(c.group.clock.Load()) }

// AwaitsNone undoes Awaits.
func (c *status) AwaitsNone() { c.readWait.Store(0) }

// WaitsToRead reports whether a call waits for bytes, and WaitsToWrite for room.
func (c *status) WaitsToRead() bool { return c.readWait.Load() != 0 }

// WaitsToWrite reports whether a call waits for room.
func (c *status) WaitsToWrite() bool { return c.writeWait.Load() != 0 }

// waits records that a call starts to wait. The call sets since to 0 when it returns.
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

// expired returns the timeout that the connection has exceeded, or nil.
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

// A shake records whether a connection holds one of the places for TLS handshakes. It holds a place
// while the server computes, but not while it waits for its client: otherwise slow clients would
// keep out others.
type shake uint8

const (
	shakeNot   shake = iota // there is no handshake
	shakeHolds              // it has a place
	shakeWaits              // it returned its place while it waits
)

// BeginHandshake assigns to a connection the place that [Group.TakeHandshake] took.
func (c *status) BeginHandshake() { c.shake(shakeHolds) }

// EndHandshake returns the place.
func (c *status) EndHandshake() { c.shake(shakeNot) }

func (c *status) shake(to shake) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.shaking == shakeHolds {
		<-c.group.Handshakes
	}
	c.shaking = to
}

// shakesAgain takes a place again for a handshake that has waited. reading is held.
func (c *status) shakesAgain() bool {
	if !c.group.TakeHandshake() {
		return false
	}
	c.shaking = shakeHolds
	return true
}
