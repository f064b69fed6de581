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
// It is a handle. The state behind it is reused for later connections, but not through an old
// handle: after the connection has ended, all methods of its Conn return [net.ErrClosed]. Only the
// addresses remain available: see [Conn.RemoteAddr]. A Conn must not be copied.
type Conn struct {
	c    *conns.Conn
	gen  uint32
	tls  atomic.Pointer[tls.Conn] // the TLS over the connection, once there is one
	kept atomic.Pointer[addrs]    // the requested addresses; nil until one is requested
}

// addrs are the addresses that a handle keeps after the end of its connection, if they were asked
// for.
type addrs struct{ remote, local atomic.Pointer[conns.Addr] }

var _ interface {
	net.Conn
	syscall.Conn
	io.ReaderFrom
	io.WriterTo
} = (*Conn)(nil)

// take begins a call that uses the connection. Drop ends it.
func (h *Conn) take() (*conns.Conn, bool) { return h.c, h.c.Take(h.gen) }

// Close ends the connection, and all calls that wait for it. Data written before is still sent.
func (h *Conn) Close() error {
	if !h.close() {
		return fail("close", nil, net.ErrClosed)
	}
	return nil
}

// close reports false if the connection was closed before.
func (h *Conn) close() bool {
	if !h.c.Close(h.gen) {
		return false
	}
	if h.tls.Load() != nil {
		h.tls.Store(nil) // other handles of the slab may keep this one in memory for long
	}
	return true
}

// cause returns the error of a call that failed with err. The handle keeps the addresses,
// since the caller may log them with the error.
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

// report passes the first bytes to the program. If the program panics, report ends the use of c, as
// Read would have.
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

// Write writes all of b, and waits while the kernel has no room.
func (h *Conn) Write(b []byte) (int, error) { return h.write(b, false) }

// Finish writes b, the last bytes, and closes the connection. The last segment then carries the FIN
// too; Write and Close need another one. The error is Write's.
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
// After the end of the connection, it returns the same address if it was called before, or if a
// call that began before the end failed with an error other than io.EOF. Otherwise the address is
// lost, and the result has another type, whose String is "closed". A program that needs the address
// after Close should call RemoteAddr once before.
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

// LocalAddr returns the address that the client connected to. After the end it behaves like
// [Conn.RemoteAddr].
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

// remoteOf and localOf return an address of the handle's connection c, and keep it.
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

// keep returns the addresses that the handle keeps.
func (h *Conn) keep() *addrs {
	if k := h.kept.Load(); k != nil {
		return k
	}
	h.kept.CompareAndSwap(nil, &addrs{})
	return h.kept.Load()
}

// unknownAddr is the address of a connection that ended before anything asked for it.
type unknownAddr struct{}

func (unknownAddr) Network() string { return "tcp" }
func (unknownAddr) String() string  { return "closed" }

// SetDeadline sets both deadlines. The zero time means none.
func (h *Conn) SetDeadline(t time.Time) error { return h.setDeadlines(t, true, true) }

// SetReadDeadline sets the time at which reading fails with [os.ErrDeadlineExceeded], even in calls
// that already wait.
func (h *Conn) SetReadDeadline(t time.Time) error { return h.setDeadlines(t, true, false) }

// SetWriteDeadline sets the time at which writing fails. A call that fails at the deadline may
// already have written some bytes.
func (h *Conn) SetWriteDeadline(t time.Time) error { return h.setDeadlines(t, false, true) }

func (h *Conn) setDeadlines(t time.Time, read, write bool) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetDeadlines(t, read, write) })
}

// CloseWrite ends sending after the bytes written so far. The peer then reads io.EOF.
func (h *Conn) CloseWrite() error {
	return h.call("shutdown", func(c *conns.Conn) error { return c.HalfClose(false) })
}

// CloseRead ends reading.
func (h *Conn) CloseRead() error {
	return h.call("shutdown", func(c *conns.Conn) error { return c.HalfClose(true) })
}

// SetNoDelay(false) holds back bytes that do not fill a packet while earlier ones are not
// acknowledged (RFC 896).
func (h *Conn) SetNoDelay(on bool) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetNoDelay(on) })
}

// SetLinger sets what Close does with written bytes that are not acknowledged. If seconds is below
// 0, which is the default, they are sent after Close has returned. If it is 0, they are discarded,
// and the peer gets a reset.
func (h *Conn) SetLinger(seconds int) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetLinger(seconds) })
}

// SetReadBuffer sets how many received bytes the kernel holds until they are read. On Linux
// this replaces the automatic size, which grows as needed.
func (h *Conn) SetReadBuffer(bytes int) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetBuffer(bytes, true) })
}

// SetWriteBuffer sets how many written bytes the kernel holds until they are acknowledged.
// On Linux this replaces the automatic size, which grows as needed.
func (h *Conn) SetWriteBuffer(bytes int) error {
	return h.call("set", func(c *conns.Conn) error { return c.SetBuffer(bytes, false) })
}

// SyscallConn returns the descriptor, for operations without a method here.
func (h *Conn) SyscallConn() (syscall.RawConn, error) {
	var raw syscall.RawConn
	err := h.call("raw", func(c *conns.Conn) (err error) {
		raw, err = c.Raw()
		return err
	})
	return raw, err
}

// WaitReadable waits until there are bytes to read, or the end. An idle handler should wait here
// before it allocates a buffer, so that an idle connection costs only its goroutine. If there is
// nothing to read when the server ends, it returns [ErrDraining].
//
// If a [tls.Conn] uses the connection, TLS may have received records that it has not yet returned,
// even after a short Read. WaitReadable does not notice them. In this case call it only after a
// Read has failed at a read deadline.
func (h *Conn) WaitReadable() error {
	return h.call("wait", func(c *conns.Conn) error { return c.WaitReadable(true) })
}

// call calls do with the connection, and keeps it from being closed meanwhile.
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

// fail returns an error in the format of package net.
func fail(op string, c *conns.Conn, err error) error {
	e := &net.OpError{Op: op, Net: "tcp", Err: err}
	if c != nil {
		e.Source = c.LocalAddr().Addr
		e.Addr = c.RemoteAddr().Addr
		e.Net = e.Addr.Network()
	}
	return e
}
