//go:build !linux || haul_portable

package tcp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/tcp/internal/deadline"
)

// A sock is a connection of package net.
type sock struct {
	status

	nc net.Conn

	readBy   atomic.Int64 // in nanoseconds of Unix time; 0 for none
	mu       sync.Mutex   // changes of the deadlines
	nudged   bool         // mu: the read deadline was moved, to wake a call that waits
	readable []byte       // reading: read by WaitReadable
	one      [1]byte
}

func (c *sock) sysReset() {
	c.readBy.Store(0)
	c.nudged, c.readable = false, nil
}

func (c *sock) sysRead(b []byte) (int, error) {
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

func (c *sock) sysWrite(b []byte, last bool) (int, error) {
	c.waits(&c.writeWait)
	n, err := c.nc.Write(b)
	c.writeWait.Store(0)
	if n > 0 {
		c.sent()
	}
	return n, unnamed(err)
}

// interrupt wakes the calls that wait, once c is closed.
func (c *sock) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.nc.SetDeadline(time.Unix(1, 0))
}

// sysShutdown ends both directions, for calls under way and later ones.
func (c *sock) sysShutdown() { _ = c.nc.Close() }

func (c *sock) sysClose() { _ = c.nc.Close() }

func (c *sock) sysDeadlines(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return net.ErrClosed // calls that Close interrupted stay interrupted
	}
	if read {
		c.readBy.Store(deadline.Nanoseconds(t))
	}
	switch {
	case read && write:
		return unnamed(c.nc.SetDeadline(t))
	case read:
		return unnamed(c.nc.SetReadDeadline(t))
	}
	return unnamed(c.nc.SetWriteDeadline(t))
}

func (c *sock) sysHalfClose(read bool) error {
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

func (c *sock) sysNoDelay(on bool) error {
	if t, ok := c.nc.(*net.TCPConn); ok {
		return unnamed(t.SetNoDelay(on))
	}
	return nil
}

func (c *sock) sysLinger(seconds int) error {
	if t, ok := c.nc.(*net.TCPConn); ok {
		return unnamed(t.SetLinger(seconds))
	}
	return nil
}

func (c *sock) sysBuffer(bytes int, read bool) error {
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

func (c *sock) sysRaw() (syscall.RawConn, error) {
	s, ok := c.nc.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return s.SyscallConn()
}

// sysWaitReadable reads one byte, since package net cannot peek. If yields is set, the end
// of the server ends it.
func (c *sock) sysWaitReadable(yields bool) error {
	if len(c.readable) > 0 {
		return nil
	}
	for {
		looks := yields && c.shared.isDraining()
		if looks { // bytes that are there come before the end
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
			return nil // the next read returns it
		default:
			return unnamed(err)
		}
	}
}

// drainLook is how long a read at the server's end may take to find out whether there are
// bytes.
const drainLook = time.Millisecond

// sysNudge wakes WaitReadable, which checks whether the server ends.
func (c *sock) sysNudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint32(c.state.Load())&closedBit == 0 && c.idle.Load() {
		c.nudged = true
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// sysUnnudge undoes a nudge that woke no call. idle is false by now.
func (c *sock) sysUnnudge() { c.wasNudged() }

// wasNudged reports whether sysNudge ended a wait, and restores the deadline.
func (c *sock) wasNudged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.nudged || c.isClosed() {
		return false
	}
	c.nudged = false
	t := time.Time{}
	if by := c.readBy.Load(); by != 0 {
		t = time.Unix(0, by)
	}
	return c.nc.SetReadDeadline(t) == nil
}

func (c *sock) sysRemoteAddr() net.Addr { return c.nc.RemoteAddr() }

func (c *sock) sysLocalAddr() net.Addr { return c.nc.LocalAddr() }

// sysSource returns the client's address; it is not valid for a unix socket.
func (c *sock) sysSource() netip.Addr {
	if a, ok := c.nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// joins says that sysReadFrom would wait for its source itself, so it gets regular files
// only.
const joins = false

// Where these do nothing, package net copies, by the kernel if it can.

func (c *conn) sysReadFrom(r io.Reader, most int64) kernelCopy {
	to, ok := c.nc.(io.ReaderFrom)
	if !ok || c.shared.ticks.idle > 0 { // its progress would be invisible
		return kernelCopy{}
	}
	c.waits(&c.writeWait)
	n, err := to.ReadFrom(io.LimitReader(r, most))
	c.writeWait.Store(0)
	return kernelCopy{n: n}.end(unnamed(err))
}

func (c *conn) sysWriteTo(w io.Writer, most int64) kernelCopy { return kernelCopy{} }
