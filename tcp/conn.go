package tcp

import (
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/tcp/internal/conns"
)

// A Conn is an accepted connection. Handlers get it as a net.Conn.
//
// It is a handle for a pooled state that later connections reuse. An old handle cannot reach the
// later connections: after its own connection has ended, all methods of a Conn return
// [net.ErrClosed]. Only the addresses remain available: see [Conn.RemoteAddr]. A Conn must not be
// copied.
type Conn struct {
	c   *conns.Conn
	gen uint32
	tls atomic.Pointer[tls.Conn] // the TLS connection that uses this one; nil before the TLS handshake
	// kept holds the addresses that RemoteAddr and LocalAddr have returned; nil before the first
	// call.
	kept atomic.Pointer[addrs]
}

// addrs are the addresses that a handle still returns after its connection has ended, if the
// program asked for them before.
type addrs struct{ remote, local atomic.Pointer[conns.Addr] }

var _ interface {
	net.Conn
	syscall.Conn
	io.ReaderFrom
	io.WriterTo
} = (*Conn)(nil)

// take begins a call that uses the connection, which is not reused meanwhile. It returns false if
// the connection has ended. Otherwise the caller must call Drop, which ends the use.
func (h *Conn) take() (*conns.Conn, bool) { return h.c, h.c.Take(h.gen) }

// Close closes the connection, and makes all its waiting calls return. Data written before is still
// sent.
func (h *Conn) Close() error {
	if !h.close() {
		return fail("close", nil, net.ErrClosed)
	}
	return nil
}

// close does the work of Close. It returns false if the connection was closed before.
func (h *Conn) close() bool {
	if !h.c.Close(h.gen) {
		return false
	}
	if h.tls.Load() != nil {
		// Drop the TLS connection here, so that it can be freed. The handle itself may stay in memory
		// for long, because handles are allocated in slabs: see acceptor.slab.
		h.tls.Store(nil)
	}
	return true
}

// cause returns the error to report for a call that failed with err. It also makes the handle keep
// the addresses, because the caller may log them with the error.
func (h *Conn) cause(c *conns.Conn, err error) error {
	h.remoteOf(c)
	h.localOf(c)
	return c.Cause(err)
}

// Read reads available bytes. It waits until the first byte arrives.
func (h *Conn) Read(b []byte) (int, error) {
	c, ok := h.take()
	if !ok {
		return 0, fail("read", nil, net.ErrClosed)
	}
	n, first, err := c.Read(b)
	if first {
		h.report(c, b[:n])
	}
	if err != nil && (err != io.EOF || c.Ended() != nil) {
		err = fail("read", c, h.cause(c, err))
	}
	c.Drop()
	return n, err
}

// report passes the first bytes to the program's FirstBytes. If FirstBytes panics, Read does not
// continue, so report drops the use of c in its place.
func (h *Conn) report(c *conns.Conn, b []byte) {
	returned := false
	defer func() {
		if !returned {
			c.Drop()
		}
	}()
	c.FirstBytes(h, b)
	returned = true
}

// Write writes all of b. It waits while the kernel's send buffer is full.
func (h *Conn) Write(b []byte) (int, error) { return h.write(b, false) }

// Finish writes b and closes the connection. The last segment with data then also carries the FIN;
// with Write and Close, the FIN needs a segment of its own. The error is the one from writing.
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
	n, err := c.Write(b, last)
	if err != nil {
		err = fail("write", c, h.cause(c, err))
	}
	c.Drop()
	return n, err
}

// RemoteAddr returns the address of the client: a *net.TCPAddr or *net.UnixAddr. Behind a trusted
// proxy ([Server.Proxies], UnixProxies) it is the address of the proxy's client.
//
// After the connection has ended, RemoteAddr returns the same address if the program has called it
// before, or if a call that was under way failed with an error other than io.EOF. Otherwise the
// address is lost, and the result has another type, whose String is "closed". A program that needs
// the address after Close should call RemoteAddr once before Close.
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
	c.Drop()
	return a
}

// LocalAddr returns the address that the client connected to. After the connection has ended, it
// behaves like [Conn.RemoteAddr].
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
	c.Drop()
	return a
}

// remoteOf and localOf return an address of the handle's connection c, and make the handle keep it.
func (h *Conn) remoteOf(c *conns.Conn) net.Addr {
	a := c.RemoteAddr()
	h.keep().remote.Store(a)
	return a.Addr
}

func (h *Conn) localOf(c *conns.Conn) net.Addr {
	a := c.LocalAddr()
	h.keep().local.Store(a)
	return a.Addr
}

// keep returns the kept addresses. It creates them at the first call.
func (h *Conn) keep() *addrs {
	if k := h.kept.Load(); k != nil {
		return k
	}
	h.kept.CompareAndSwap(nil, &addrs{})
	return h.kept.Load()
}

// unknownAddr is the address of a connection that ended before any caller asked for its address.
type unknownAddr struct{}

func (unknownAddr) Network() string { return "tcp" }
func (unknownAddr) String() string  { return "closed" }

// SetDeadline sets the read deadline and the write deadline. The zero time means no deadline.
func (h *Conn) SetDeadline(t time.Time) error { return h.setDeadlines(t, true, true) }

// SetReadDeadline sets the time at which reading fails with [os.ErrDeadlineExceeded]. It also
// applies to calls that already wait.
func (h *Conn) SetReadDeadline(t time.Time) error { return h.setDeadlines(t, true, false) }

// SetWriteDeadline sets the time at which writing fails. A call that fails at the deadline may
// already have written a part of its bytes.
func (h *Conn) SetWriteDeadline(t time.Time) error { return h.setDeadlines(t, false, true) }

func (h *Conn) setDeadlines(t time.Time, read, write bool) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetDeadlines(t, read, write) })
}

// CloseWrite closes the sending half of the connection, after the bytes written so far. The peer
// then reads io.EOF.
func (h *Conn) CloseWrite() error {
	return h.call("shutdown", func(c *conns.Conn) error { return c.HalfClose(false) })
}

// CloseRead closes the receiving half of the connection.
func (h *Conn) CloseRead() error {
	return h.call("shutdown", func(c *conns.Conn) error { return c.HalfClose(true) })
}

// SetNoDelay switches Nagle's algorithm off, or on if its argument is false. The algorithm holds
// back bytes that do not fill a packet while earlier bytes are not acknowledged (RFC 896).
func (h *Conn) SetNoDelay(on bool) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetNoDelay(on) })
}

// SetLinger sets what Close does with written bytes that are not yet acknowledged. If seconds is
// negative, the default, they are sent after Close has returned. If seconds is 0, they are
// discarded, and the peer gets a reset.
func (h *Conn) SetLinger(seconds int) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetLinger(seconds) })
}

// SetReadBuffer sets the size of the kernel's receive buffer: how many received bytes it holds
// until they are read. On Linux the fixed size replaces the automatic one, which grows as needed.
func (h *Conn) SetReadBuffer(bytes int) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetBuffer(bytes, true) })
}

// SetWriteBuffer sets the size of the kernel's send buffer: how many written bytes it holds until
// they are acknowledged. On Linux the fixed size replaces the automatic one, which grows as needed.
func (h *Conn) SetWriteBuffer(bytes int) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetBuffer(bytes, false) })
}

// SyscallConn gives access to the descriptor, for operations that Conn has no method for.
func (h *Conn) SyscallConn() (syscall.RawConn, error) {
	var raw syscall.RawConn
	err := h.call("raw", func(c *conns.Conn) (err error) {
		raw, err = c.Raw()
		return err
	})
	return raw, err
}

// WaitReadable waits until there are bytes to read, or the client closes the connection. A handler
// should wait here between requests, before it allocates a buffer, so that an idle connection costs
// only its goroutine. If the server begins to end while there is nothing to read, WaitReadable
// returns [ErrDraining].
//
// If a [tls.Conn] uses the connection, it may hold received records that it has not yet returned,
// even after a Read that returned fewer bytes than asked for. WaitReadable does not notice such
// records. With TLS, call it only after a Read has failed at a read deadline.
func (h *Conn) WaitReadable() error {
	return h.call("wait", func(c *conns.Conn) error { return c.WaitReadable(true) })
}

// call calls the function `do` with the connection, which is not reused before `do` returns.
func (h *Conn) call(op string, do func(*conns.Conn) error) error {
	c, ok := h.take()
	if !ok {
		return fail(op, nil, net.ErrClosed)
	}
	defer c.Drop()
	if err := do(c); err != nil {
		return fail(op, c, h.cause(c, err))
	}
	return nil
}

// fail wraps err in a net.OpError, as package net does. c may be nil.
func fail(op string, c *conns.Conn, err error) error {
	e := &net.OpError{Op: op, Net: "tcp", Err: err}
	if c != nil {
		e.Source = c.LocalAddr().Addr
		e.Addr = c.RemoteAddr().Addr
		e.Net = e.Addr.Network()
	}
	return e
}
