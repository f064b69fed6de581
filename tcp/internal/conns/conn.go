package conns

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/haul-project/haul/tcp/internal/proxy"
)

// A Conn is a pooled connection. A call takes the use of it ([Conn.Take], [Conn.Drop]). Methods
// that move bytes, wait or set something require that use.
type Conn struct {
	sock // the connection of the system

	leave      func(*Conn) // returns it to its roster
	next, prev *Conn       // in the roster: the neighbours among the live connections, or the next free one

	prefix []byte // reading: bytes received but not yet read by the handler

	ended         atomic.Pointer[ender] // why the server ended the connection; nil if it did not
	remote, local atomic.Pointer[Addr]

	Source netip.Addr // the address that the gate counts it for; invalid if it is not counted
}

// An ender is the reason why a connection was ended.
type ender struct{ err error }

// lingering marks a connection that the handler has ended but whose client has not.
var lingering = &ender{net.ErrClosed}

// An Addr wraps a net.Addr so that it can be stored atomically.
type Addr struct{ net.Addr }

// Take begins a call that uses the connection, and Drop ends it. Take reports false if the
// generation is over or the connection is closed.
func (c *Conn) Take(gen uint32) bool {
	for {
		s := c.state.Load()
		if uint32(s>>genShift) != gen || s&closedBit != 0 {
			return false
		}
		if c.state.CompareAndSwap(s, s+1) {
			return true
		}
	}
}

// Drop ends the use of a connection.
func (c *Conn) Drop() {
	if uint32(c.state.Add(^uint64(0))) == closedBit {
		c.Discard()
		c.leave(c)
	}
}

// Close closes the connection and interrupts its waiting calls. It reports false if the generation
// is over or the connection was already closed.
func (c *Conn) Close(gen uint32) bool {
	for {
		s := c.state.Load()
		if uint32(s>>genShift) != gen || s&closedBit != 0 {
			return false
		}
		if c.state.CompareAndSwap(s, s|closedBit) {
			break
		}
	}
	if uint32(c.state.Load()) != closedBit+1 {
		c.interrupt()
	}
	c.Drop()
	return true
}

// Finish closes a connection whose handle, if there is one, is no longer used.
func (c *Conn) Finish() {
	c.state.Or(closedBit)
	c.Drop()
}

// End ends a connection that ran out of time, or whose server ends, so that its handler returns.
// Its calls then fail with err. It is counted unless it was ended before.
func (c *Conn) End(err error, count *atomic.Uint64) bool {
	if !c.ended.CompareAndSwap(nil, &ender{err}) {
		return false
	}
	count.Add(1)
	c.Shutdown()
	return true
}

// Linger keeps a connection that the handler has ended until its client ends it too. Meanwhile it
// has no timeouts and does not count as cut.
func (c *Conn) Linger() {
	c.ended.CompareAndSwap(nil, lingering)
	_ = c.HalfClose(false)
}

// Ended returns why the server has ended the connection, or nil.
func (c *Conn) Ended() error {
	if e := c.ended.Load(); e != nil {
		return e.err
	}
	return nil
}

// Cause returns the error for a call that failed with err: the reason why the server ended the
// connection, if it did.
func (c *Conn) Cause(err error) error {
	if ended := c.Ended(); ended != nil {
		return ended
	}
	if errors.Is(err, net.ErrClosed) || c.isClosed() {
		return net.ErrClosed
	}
	return err
}

// Read reads available bytes. It waits until the first byte arrives. first reports whether they are the
// client's first bytes.
func (c *Conn) Read(b []byte) (n int, first bool, err error) {
	c.reading.Lock()
	first = c.phase.Load() == listening
	n, err = c.read(b)
	c.reading.Unlock()
	return n, first && n > 0, err
}

func (c *Conn) read(b []byte) (n int, err error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case len(c.prefix) > 0:
		n := copy(b, c.takePrefix(int64(len(b))))
		return n, nil
	}
	n, err = c.receive(b)
	if c.shaking == shakeWaits && !c.shakesAgain() {
		return 0, ErrHandshake
	}
	if n > 0 {
		c.Heard()
		return n, nil
	}
	return 0, err
}

// Prepend makes the next reads return b first.
func (c *Conn) Prepend(b []byte) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.prefix = b
}

// takePrefix takes up to most of the bytes that were received before. reading is held.
func (c *Conn) takePrefix(most int64) []byte {
	b := c.prefix[:min(int64(len(c.prefix)), most)]
	if len(b) == 0 {
		return nil
	}
	if c.prefix = c.prefix[len(b):]; len(c.prefix) == 0 {
		c.prefix = nil
	}
	c.Heard()
	return b
}

// Write writes all of b, and waits while the kernel has no room. If last is set, the kernel may
// hold back a partial segment until the connection ends.
func (c *Conn) Write(b []byte, last bool) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.send(b, last)
}

// Reads calls f, which reads, while no other call does. ahead holds up to most bytes that were
// received before; they belong to f.
func (c *Conn) Reads(most int64, f func(ahead []byte) error) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	return f(c.takePrefix(most))
}

// Writes calls f, which writes, while no other call does.
func (c *Conn) Writes(f func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return f()
}

// WaitReadable waits until there are bytes to read, or the end. If yields is set, the server's end
// ends the wait with ErrDraining.
func (c *Conn) WaitReadable(yields bool) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	if len(c.prefix) > 0 {
		return nil
	}
	if !yields {
		return c.waitReadable(false)
	}
	c.idle.Store(true)
	defer c.NotIdle()
	return c.waitReadable(true)
}

// NotIdle ends the wait for a request.
func (c *Conn) NotIdle() {
	c.idle.Store(false)
	c.unnudge() // a nudge may have come too late for the wait
}

// TakeAddrs sets the connection's addresses from a PROXY header. It returns the client's address,
// which is invalid if the header names none.
func (c *Conn) TakeAddrs(header proxy.Header) netip.Addr {
	if header.Local || !header.Source.IsValid() {
		return netip.Addr{}
	}
	c.remote.Store(&Addr{net.TCPAddrFromAddrPort(header.Source)})
	c.local.Store(&Addr{net.TCPAddrFromAddrPort(header.Destination)})
	return header.Source.Addr()
}

// RemoteAddr returns the address of the client. It keeps an address that a PROXY header sets
// concurrently.
func (c *Conn) RemoteAddr() *Addr { return cached(&c.remote, c.PeerAddr) }

// LocalAddr returns the address that the client connected to.
func (c *Conn) LocalAddr() *Addr { return cached(&c.local, c.ownAddr) }

func cached(at *atomic.Pointer[Addr], ask func() net.Addr) *Addr {
	if a := at.Load(); a != nil {
		return a
	}
	at.CompareAndSwap(nil, &Addr{ask()})
	return at.Load()
}
