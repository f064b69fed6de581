package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// A Conn is a connection that was accepted: what a handler gets, as a net.Conn.
//
// It is a handle. The state behind it is reused for one connection after the other, but
// not through an old handle: after the connection has ended, all methods of its Conn
// return [net.ErrClosed]. Only the addresses remain available: see [Conn.RemoteAddr].
// It must not be copied.
type Conn struct {
	c    *conn
	gen  uint32
	tls  atomic.Pointer[tls.Conn] // that is over it, once there is one
	kept atomic.Pointer[addrs]    // those that were asked for, once any was
}

// addrs are the addresses that a handle keeps after the end of its connection: those that
// were asked for.
type addrs struct{ remote, local atomic.Pointer[netAddr] }

var _ interface {
	net.Conn
	syscall.Conn
	io.ReaderFrom
	io.WriterTo
} = (*Conn)(nil)

// A conn is what a Conn is the handle of, for one connection at a time.
type conn struct {
	sock // what it is to the system

	home       *roster // where it comes from and returns to
	next, prev *conn   // of home: the live ones, or next of those to reuse

	prefix []byte     // reading: read already, and not yet by the handler
	source netip.Addr // counted by the run's sources; not valid if not

	ended         atomic.Pointer[ender] // why the server ended it, if it did
	remote, local atomic.Pointer[netAddr]
}

// An ender is why a connection was ended.
type ender struct{ err error }

// lingering is that of a connection which the handler has ended, and whose client has not.
var lingering = &ender{net.ErrClosed}

// netAddr holds a net.Addr, to be stored atomically.
type netAddr struct{ net.Addr }

// take begins a call that uses c, and drop ends it.
func (h *Conn) take() (*conn, bool) {
	c := h.c
	for {
		s := c.state.Load()
		if uint32(s>>genShift) != h.gen || s&closedBit != 0 {
			return nil, false
		}
		if c.state.CompareAndSwap(s, s+1) {
			return c, true
		}
	}
}

func (c *conn) drop() {
	if uint32(c.state.Add(^uint64(0))) == closedBit {
		c.release()
	}
}

// release gives back what the connection had, and c to the next one.
func (c *conn) release() {
	c.sysClose()
	c.home.leave(c)
}

// Close ends the connection, and all calls that wait for it. Data that was written is still
// sent.
func (h *Conn) Close() error {
	if !h.close() {
		return fail("close", nil, net.ErrClosed)
	}
	return nil
}

// close reports false if the connection was closed before.
func (h *Conn) close() bool {
	c := h.c
	for {
		s := c.state.Load()
		if uint32(s>>genShift) != h.gen || s&closedBit != 0 {
			return false
		}
		if c.state.CompareAndSwap(s, s|closedBit) {
			break
		}
	}
	if uint32(c.state.Load()) != closedBit+1 {
		c.interrupt()
	}
	c.drop()
	if h.tls.Load() != nil {
		h.tls.Store(nil) // as others of the slab may keep the handle for long
	}
	return true
}

// end ends a connection that ran out of time, or whose server ends, so that its handler
// returns. Its calls fail with err from now on. It is counted, unless it was ended before.
func (c *conn) end(err error, count *atomic.Uint64) bool {
	if !c.ended.CompareAndSwap(nil, &ender{err}) {
		return false
	}
	count.Add(1)
	c.sysShutdown()
	return true
}

// cause returns the error of a call: why the server ended the connection, if it did. The
// handle keeps the addresses, since the caller may log them with the error.
func (h *Conn) cause(c *conn, err error) error {
	h.remoteOf(c)
	h.localOf(c)
	if e := c.ended.Load(); e != nil {
		return e.err
	}
	if errors.Is(err, net.ErrClosed) || uint32(c.state.Load())&closedBit != 0 {
		return net.ErrClosed
	}
	return err
}

// Read reads available bytes, and waits if there are none.
func (h *Conn) Read(b []byte) (int, error) {
	c, ok := h.take()
	if !ok {
		return 0, fail("read", nil, net.ErrClosed)
	}
	c.reading.Lock()
	first := c.phase.Load() == listening
	n, err := c.read(b)
	c.reading.Unlock()
	if first && n > 0 {
		h.sayFirst(c, b[:n])
	}
	if err != nil && (err != io.EOF || c.ended.Load() != nil) {
		err = fail("read", c, h.cause(c, err))
	}
	c.drop()
	return n, err
}

// sayFirst hands the first bytes to the program's hook. A panic in it ends the use of c,
// as Read would have.
func (h *Conn) sayFirst(c *conn, b []byte) {
	returned := false
	defer func() {
		if !returned {
			c.drop()
		}
	}()
	c.home.sayFirst(h, b)
	returned = true
}

// read is Read. reading is held.
func (c *conn) read(b []byte) (n int, err error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case len(c.prefix) > 0:
		return c.readPrefix(b), nil
	}
	n, err = c.sysRead(b)
	if c.shaking == shakeWaits && !c.shakesAgain() {
		return 0, ErrHandshake
	}
	if n > 0 {
		c.heard()
		return n, nil
	}
	return 0, err
}

// readPrefix gives out bytes that were read before.
func (c *conn) readPrefix(b []byte) int {
	n := copy(b, c.prefix)
	if c.prefix = c.prefix[n:]; len(c.prefix) == 0 {
		c.prefix = nil
	}
	c.heard()
	return n
}

// Write writes all of b, and waits while the kernel has no room.
func (h *Conn) Write(b []byte) (int, error) { return h.write(b, false) }

// Finish writes b, the last bytes, and closes the connection. The last segment then carries
// the end too; Write and Close need one more. The error is Write's.
func (h *Conn) Finish(b []byte) (int, error) {
	n, err := h.write(b, true)
	h.close()
	return n, err
}

func (h *Conn) write(b []byte, last bool) (int, error) {
	c, ok := h.take()
	if !ok {
		return 0, fail("write", nil, net.ErrClosed)
	}
	c.writing.Lock()
	n, err := c.sysWrite(b, last)
	c.writing.Unlock()
	if err != nil {
		err = fail("write", c, h.cause(c, err))
	}
	c.drop()
	return n, err
}

// RemoteAddr returns where the connection comes from: a *net.TCPAddr or
// *net.UnixAddr. Behind a trusted proxy ([Server.Proxies], UnixProxies) that is the proxy's client.
//
// After the end of the connection it returns the same, if it was called before, or if a
// call that began before the end failed with another error than io.EOF. Otherwise the
// address is lost, and the result is of another type, whose String is "closed". A program
// that needs the address after Close should call RemoteAddr once before.
func (h *Conn) RemoteAddr() net.Addr {
	if k := h.kept.Load(); k != nil {
		if a := k.remote.Load(); a != nil {
			return a.Addr
		}
	}
	c, ok := h.take()
	if !ok {
		return unknownAddr{}
	}
	a := h.remoteOf(c)
	c.drop()
	return a
}

// LocalAddr returns the address that the client connected to. After the end it behaves as
// [Conn.RemoteAddr] does.
func (h *Conn) LocalAddr() net.Addr {
	if k := h.kept.Load(); k != nil {
		if a := k.local.Load(); a != nil {
			return a.Addr
		}
	}
	c, ok := h.take()
	if !ok {
		return unknownAddr{}
	}
	a := h.localOf(c)
	c.drop()
	return a
}

// remoteOf and localOf return an address of c, which is the handle's, and keep it.
func (h *Conn) remoteOf(c *conn) net.Addr {
	a := cachedAddr(&c.remote, c.sysRemoteAddr)
	h.keep().remote.Store(a)
	return a.Addr
}

func (h *Conn) localOf(c *conn) net.Addr {
	a := cachedAddr(&c.local, c.sysLocalAddr)
	h.keep().local.Store(a)
	return a.Addr
}

// keep returns where the handle keeps addresses.
func (h *Conn) keep() *addrs {
	if k := h.kept.Load(); k != nil {
		return k
	}
	h.kept.CompareAndSwap(nil, &addrs{})
	return h.kept.Load()
}

// cachedAddr returns a known address, or asks for it. An address that a PROXY header set
// meanwhile stays.
func cachedAddr(at *atomic.Pointer[netAddr], ask func() net.Addr) *netAddr {
	if a := at.Load(); a != nil {
		return a
	}
	at.CompareAndSwap(nil, &netAddr{ask()})
	return at.Load()
}

// unknownAddr is the address of a connection that has ended, if nothing asked for it before.
type unknownAddr struct{}

func (unknownAddr) Network() string { return "tcp" }
func (unknownAddr) String() string  { return "closed" }

// SetDeadline sets both deadlines. The zero time is none.
func (h *Conn) SetDeadline(t time.Time) error { return h.setDeadlines(t, true, true) }

// SetReadDeadline sets when reading fails with [os.ErrDeadlineExceeded], also for a call
// that waits already.
func (h *Conn) SetReadDeadline(t time.Time) error { return h.setDeadlines(t, true, false) }

// SetWriteDeadline sets when writing fails. A call may have written some bytes by then.
func (h *Conn) SetWriteDeadline(t time.Time) error { return h.setDeadlines(t, false, true) }

func (h *Conn) setDeadlines(t time.Time, read, write bool) error {
	return h.call("set", func(c *conn) error { return c.sysDeadlines(t, read, write) })
}

// CloseWrite ends sending, after the bytes that were written. The peer reads io.EOF then.
func (h *Conn) CloseWrite() error {
	return h.call("shutdown", func(c *conn) error { return c.sysHalfClose(false) })
}

// CloseRead ends reading.
func (h *Conn) CloseRead() error {
	return h.call("shutdown", func(c *conn) error { return c.sysHalfClose(true) })
}

// SetNoDelay(false) holds back bytes that do not fill a packet while others are not
// acknowledged (RFC 896).
func (h *Conn) SetNoDelay(on bool) error {
	return h.call("set", func(c *conn) error { return c.sysNoDelay(on) })
}

// SetLinger sets what Close does with written bytes that are not acknowledged: for seconds
// below 0, the default, they are sent after Close has returned; for 0 they are discarded,
// and the peer gets a reset.
func (h *Conn) SetLinger(seconds int) error {
	return h.call("set", func(c *conn) error { return c.sysLinger(seconds) })
}

// SetReadBuffer sets how many received bytes the kernel holds until they are read. On Linux
// this replaces the automatic size, which grows as needed.
func (h *Conn) SetReadBuffer(bytes int) error {
	return h.call("set", func(c *conn) error { return c.sysBuffer(bytes, true) })
}

// SetWriteBuffer sets how many written bytes the kernel holds until they are acknowledged.
// On Linux this replaces the automatic size, which grows as needed.
func (h *Conn) SetWriteBuffer(bytes int) error {
	return h.call("set", func(c *conn) error { return c.sysBuffer(bytes, false) })
}

// SyscallConn returns the descriptor, for operations without a method here.
func (h *Conn) SyscallConn() (syscall.RawConn, error) {
	var raw syscall.RawConn
	err := h.call("raw", func(c *conn) (err error) {
		raw, err = c.sysRaw()
		return err
	})
	return raw, err
}

// WaitReadable waits until there are bytes to read, or the end. An idle handler should wait
// here before it allocates a buffer, so that an idle connection costs only its goroutine.
// If there is nothing to read when the server ends, it returns [ErrDraining].
//
// Below a [tls.Conn] it does not see records that TLS has read and not given out yet, also
// after a short Read. Call it there only after a Read has failed at a read deadline.
func (h *Conn) WaitReadable() error {
	return h.call("wait", func(c *conn) error {
		c.reading.Lock()
		defer c.reading.Unlock()
		if len(c.prefix) > 0 {
			return nil
		}
		c.idle.Store(true)
		err := c.sysWaitReadable(true)
		c.idle.Store(false)
		c.sysUnnudge() // a nudge may have come too late for the wait
		return err
	})
}

// call calls do with the connection, which is not closed meanwhile.
func (h *Conn) call(op string, do func(*conn) error) error {
	c, ok := h.take()
	if !ok {
		return fail(op, nil, net.ErrClosed)
	}
	defer c.drop()
	if err := do(c); err != nil {
		return fail(op, c, h.cause(c, err))
	}
	return nil
}

// fail returns an error in the form of package net.
func fail(op string, c *conn, err error) error {
	e := &net.OpError{Op: op, Net: "tcp", Err: err}
	if c != nil {
		e.Source = cachedAddr(&c.local, c.sysLocalAddr).Addr
		e.Addr = cachedAddr(&c.remote, c.sysRemoteAddr).Addr
		e.Net = e.Addr.Network()
	}
	return e
}
