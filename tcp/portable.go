//go:build !linux || haul_portable

package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A sock is a connection of package net.
type sock struct {
	nc net.Conn

	readBy   atomic.Int64 // in nanoseconds of Unix time; 0 for none
	mu       sync.Mutex   // what is done to the deadlines
	nudged   bool         // mu: the deadline for reading has been moved to wake who waits
	readable []byte       // reading: what WaitReadable has read
	one      [1]byte
}

func (c *conn) sysReset() {
	c.readBy.Store(0)
	c.nudged, c.readable = false, nil
}

func (c *conn) sysRead(b []byte) (int, error) {
	if len(c.readable) > 0 {
		n := copy(b, c.readable)
		c.readable = c.readable[n:]
		return n, nil
	}
	c.waits(&c.readWait)
	n, err := c.nc.Read(b)
	c.readWait.Store(0)
	return n, unnamed(err)
}

func (c *conn) sysWrite(b []byte, last bool) (int, error) {
	c.waits(&c.writeWait)
	n, err := c.nc.Write(b)
	c.writeWait.Store(0)
	if n > 0 {
		c.sent()
	}
	return n, unnamed(err)
}

// interrupt wakes the calls that wait, once c is closed.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.nc.SetDeadline(time.Unix(1, 0))
}

// sysShutdown ends both directions under the calls that are under way, and those to
// come.
func (c *conn) sysShutdown() { _ = c.nc.Close() }

func (c *conn) sysClose() { _ = c.nc.Close() }

func (c *conn) sysDeadlines(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint32(c.state.Load())&closedBit != 0 {
		return net.ErrClosed // what Close has interrupted remains so
	}
	if read {
		c.readBy.Store(inNanoseconds(t))
	}
	switch {
	case read && write:
		return unnamed(c.nc.SetDeadline(t))
	case read:
		return unnamed(c.nc.SetReadDeadline(t))
	}
	return unnamed(c.nc.SetWriteDeadline(t))
}

func (c *conn) sysHalfClose(read bool) error {
	half, ok := c.nc.(interface {
		CloseRead() error
		CloseWrite() error
	})
	switch {
	case !ok:
		return errors.ErrUnsupported
	case read:
		return unnamed(half.CloseRead())
	}
	return unnamed(half.CloseWrite())
}

func (c *conn) sysNoDelay(on bool) error {
	if t, ok := c.nc.(*net.TCPConn); ok {
		return unnamed(t.SetNoDelay(on))
	}
	return nil
}

func (c *conn) sysLinger(seconds int) error {
	if t, ok := c.nc.(*net.TCPConn); ok {
		return unnamed(t.SetLinger(seconds))
	}
	return nil
}

func (c *conn) sysBuffer(bytes int, read bool) error {
	s, ok := c.nc.(interface {
		SetReadBuffer(int) error
		SetWriteBuffer(int) error
	})
	switch {
	case !ok:
		return errors.ErrUnsupported
	case read:
		return unnamed(s.SetReadBuffer(bytes))
	}
	return unnamed(s.SetWriteBuffer(bytes))
}

func (c *conn) sysRaw() (syscall.RawConn, error) {
	s, ok := c.nc.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return s.SyscallConn()
}

// sysWaitReadable reads one byte, as there is nothing that only looks. At the server's
// end it waits no longer, if it yields to that.
func (c *conn) sysWaitReadable(yields bool) error {
	if len(c.readable) > 0 {
		return nil
	}
	for {
		looks := yields && c.run.isDraining()
		if looks { // what is there comes before the end
			c.mu.Lock()
			c.nudged = true
			_ = c.nc.SetReadDeadline(time.Now().Add(drainLook))
			c.mu.Unlock()
		}
		c.waits(&c.readWait)
		n, err := c.nc.Read(c.one[:])
		c.readWait.Store(0)
		switch {
		case n > 0:
			c.readable = c.one[:]
			c.wasNudged()
			return nil
		case err == nil:
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && c.wasNudged():
			if looks {
				return ErrDraining
			}
		case err == io.EOF:
			return nil // which the next read finds out
		default:
			return unnamed(err)
		}
	}
}

// drainLook is how long a connection is read from at the server's end, to find out
// whether there is something.
const drainLook = time.Millisecond

// sysNudge wakes WaitReadable, which looks whether the server ends.
func (c *conn) sysNudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint32(c.state.Load())&closedBit == 0 && c.idle.Load() {
		c.nudged = true
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// sysUnnudge undoes a nudge that woke no call. idle is false by now.
func (c *conn) sysUnnudge() { c.wasNudged() }

// wasNudged reports whether a wait was ended to look, and puts the deadline back.
func (c *conn) wasNudged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.nudged || uint32(c.state.Load())&closedBit != 0 {
		return false
	}
	c.nudged = false
	t := time.Time{}
	if by := c.readBy.Load(); by != 0 {
		t = time.Unix(0, by)
	}
	return c.nc.SetReadDeadline(t) == nil
}

func (c *conn) sysRemoteAddr() net.Addr { return c.nc.RemoteAddr() }

func (c *conn) sysLocalAddr() net.Addr { return c.nc.LocalAddr() }

// sysSource returns who has connected; it is not valid for a unix socket.
func (c *conn) sysSource() netip.Addr {
	if a, ok := c.nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// joins says that sysReadFrom would wait for its source itself, so that only regular
// files are for it.
const joins = false

// Package net copies by the kernel what it can where these say no.

func (c *conn) sysReadFrom(r io.Reader, most int64) moved {
	to, ok := c.nc.(io.ReaderFrom)
	if !ok || c.run.ticks.idle > 0 { // its progress would not be seen
		return moved{}
	}
	c.waits(&c.writeWait)
	n, err := to.ReadFrom(io.LimitReader(r, most))
	c.writeWait.Store(0)
	return moved{n: n}.end(unnamed(err))
}

func (c *conn) sysWriteTo(w io.Writer, most int64) moved { return moved{} }

// A kernel is one listening socket.
type kernel struct {
	l net.Listener
	o Options
}

// listen opens the socket of an address: package net can have only one.
func listen(ctx context.Context, network, addr string, o Options) (*Socket, error) {
	config := net.ListenConfig{KeepAliveConfig: o.KeepAlive.config()}
	config.SetMultipathTCP(false) // as on the fast path
	l, err := config.Listen(ctx, network, addr)
	if err != nil {
		return nil, unnamed(err)
	}
	return fromListener(l, o)
}

func newKernel(l net.Listener, o Options) (*kernel, error) {
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // Socket does that
	}
	return &kernel{l: l, o: o}, nil
}

// config is the same for package net.
func (k KeepAlive) config() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: !k.Off, Idle: k.idle(), Interval: k.interval(), Count: k.count()}
}

// share says that others may have the socket too.
func (k *kernel) share() {}

// accept waits for a connection and makes it c's. It returns net.ErrClosed when the
// socket is stopped.
func (k *kernel) accept(c *conn) error {
	nc, err := k.l.Accept()
	if err != nil {
		return unnamed(err)
	}
	if t, ok := nc.(*net.TCPConn); ok {
		if k.o.Nagle {
			_ = t.SetNoDelay(false)
		}
		if k.o.SendBuffer > 0 {
			_ = t.SetWriteBuffer(k.o.SendBuffer)
		}
	}
	c.nc = nc
	c.sysReset()
	return nil
}

// drainsQueue says that connections waiting in the queue of a stopped socket are still
// accepted.
const drainsQueue = false

// stop makes accept end. Connections that wait to be accepted are reset.
func (k *kernel) stop(bool) { _ = k.l.Close() }

func (k *kernel) close() error {
	if err := k.l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// duplicate returns the socket for another process.
func (k *kernel) duplicate() (*os.File, error) {
	l, ok := k.l.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return l.File()
}

// isTemporary reports whether accepting may succeed later: when descriptors or memory
// are there again.
func isTemporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// isOfPeer reports whether a connection was gone before it was accepted.
func isOfPeer(err error) bool {
	return errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPERM)
}

func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
