package conns

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/haul-project/haul/tcp/internal/proxy"
)

// A Conn is a pooled connection. A call that uses it begins with [Conn.Take] and ends with
// [Conn.Drop], and the connection is not reused in between. Methods that move bytes, wait, or set
// an option may be called only between the two.
type Conn struct {
	sock // the part of the state that depends on the system

	leave func(*Conn) // returns the Conn to its roster for reuse
	// next and prev are the neighbours in the roster's ring of live connections. The list of free
	// Conns uses only next.
	next, prev *Conn

	prefix []byte // bytes that were received but not yet read by the handler; guarded by reading

	ended         atomic.Pointer[ender] // why the server ended the connection; nil if it did not
	remote, local atomic.Pointer[Addr]

	Source netip.Addr // the address under which the connection is counted; invalid if it is not counted
}

// An ender holds the reason why the server ended a connection.
type ender struct{ err error }

// lingering is the value of Conn.ended for a connection that the handler has closed but whose client
// has not closed it yet.
var lingering = &ender{net.ErrClosed}

// An Addr wraps a net.Addr so that it can be stored atomically.
type Addr struct{ net.Addr }

// Take begins a call that uses the connection of generation gen; Drop ends the call. Take returns
// false if that connection is closed, even if c already serves a later one.
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

// Drop ends a use that Take began. After Close, the last Drop closes the descriptor.
func (c *Conn) Drop() {
	if uint32(c.state.Add(^uint64(0))) == closedBit {
		c.Discard()
		c.leave(c)
	}
}

// Close closes the connection of generation gen and interrupts its waiting calls. It returns false
// if that connection was already closed.
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

// Finish closes the connection. Unlike Close it interrupts no calls: it is for connections whose
// handle, if they have one, is no longer used.
func (c *Conn) Finish() {
	c.state.Or(closedBit)
	c.Drop()
}

// End ends a connection that exceeded a timeout, or whose server is ending, so that its handler
// returns: all calls of the handler then fail with err. The first call of End adds 1 to count and
// returns true; later calls do nothing and return false.
func (c *Conn) End(err error, count *atomic.Uint64) bool {
	if !c.ended.CompareAndSwap(nil, &ender{err}) {
		return false
	}
	count.Add(1)
	c.Shutdown()
	return true
}

// Linger closes the sending half of a connection that the handler has closed, and keeps the rest
// open until the client closes too. Meanwhile the connection has no timeouts and is not counted as
// cut.
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

// Cause returns the error to report for a call that failed with err: if the server ended the
// connection, its reason; if the connection was closed, net.ErrClosed; and otherwise err.
func (c *Conn) Cause(err error) error {
	if ended := c.Ended(); ended != nil {
		return ended
	}
	if errors.Is(err, net.ErrClosed) || c.isClosed() {
		return net.ErrClosed
	}
	return err
}

// Read reads available bytes. It waits until the first byte arrives. first reports whether these
// are the first bytes from the client.
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

// Prepend makes the next reads return b before newly received bytes.
func (c *Conn) Prepend(b []byte) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.prefix = b
}

// takePrefix removes at most `most` bytes from prefix and returns them. The caller holds reading.
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

// Write writes all of b. It waits while the kernel's send buffer is full. If last is set, the
// kernel may hold back a partial segment until the connection is closed.
func (c *Conn) Write(b []byte, last bool) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.send(b, last)
}

// Reads calls f while no other call reads, so f may read from the connection. ahead holds at most
// `most` bytes that were already received but not read by the handler. f must use all of them,
// because later reads do not return them again.
func (c *Conn) Reads(most int64, f func(ahead []byte) error) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	return f(c.takePrefix(most))
}

// Writes calls f while no other call writes, so f may write to the connection.
func (c *Conn) Writes(f func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return f()
}

// WaitReadable waits until there are bytes to read, or the client closes the connection. If yields
// is set and the server begins to end, it returns ErrDraining.
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

// NotIdle records that the connection no longer waits for a request.
func (c *Conn) NotIdle() {
	c.idle.Store(false)
	c.unnudge() // Nudge may have been called after the wait had ended
}

// TakeAddrs sets the connection's addresses to those in a PROXY header. It returns the client's
// address, which is invalid if the header contains none.
func (c *Conn) TakeAddrs(header proxy.Header) netip.Addr {
	if header.Local || !header.Source.IsValid() {
		return netip.Addr{}
	}
	c.remote.Store(&Addr{net.TCPAddrFromAddrPort(header.Source)})
	c.local.Store(&Addr{net.TCPAddrFromAddrPort(header.Destination)})
	return header.Source.Addr()
}

// RemoteAddr returns the address of the client. If a PROXY header sets the address concurrently,
// that address is kept.
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
