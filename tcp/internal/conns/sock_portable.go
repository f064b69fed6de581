//go:build !linux || haul_portable

package conns

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

	NC net.Conn

	readBy   atomic.Int64 // in nanoseconds of Unix time; 0 for none
	mu       sync.Mutex   // changes of the deadlines
	nudged   bool         // mu: the read deadline was moved, to wake a waiting call
	readable []byte       // reading: read by WaitReadable
	one      [1]byte
}

func (c *sock) Reset() {
	c.readBy.Store(0)
	c.nudged, c.readable = false, nil
}

func (c *sock) receive(b []byte) (int, error) {
	if len(c.readable) > 0 {
		n := copy(b, c.readable)
		c.readable = c.readable[n:]
		return n, nil
	}
	c.waits(&c.readWait)
	n, err := c.NC.Read(b)
	c.readWait.Store(0)
	return n, Unnamed(err)
}

func (c *sock) send(b []byte, last bool) (int, error) {
	c.waits(&c.writeWait)
	n, err := c.NC.Write(b)
	c.writeWait.Store(0)
	if n > 0 {
		c.Moved()
	}
	return n, Unnamed(err)
}

// interrupt wakes waiting calls once c is closed.
func (c *sock) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.NC.SetDeadline(time.Unix(1, 0))
}

// Shutdown ends both directions, for current and later calls.
func (c *sock) Shutdown() { _ = c.NC.Close() }

func (c *sock) Discard() { _ = c.NC.Close() }

func (c *sock) SetDeadlines(t time.Time, read, write bool) error {
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
		return Unnamed(c.NC.SetDeadline(t))
	case read:
		return Unnamed(c.NC.SetReadDeadline(t))
	}
	return Unnamed(c.NC.SetWriteDeadline(t))
}

func (c *sock) HalfClose(read bool) error {
	half, ok := c.NC.(interface {
		CloseRead() error
		CloseWrite() error
	})
	switch {
	case !ok:
		return errors.ErrUnsupported
	case read:
		return Unnamed(half.CloseRead())
	}
	return Unnamed(half.CloseWrite())
}

func (c *sock) SetNoDelay(on bool) error {
	if t, ok := c.NC.(*net.TCPConn); ok {
		return Unnamed(t.SetNoDelay(on))
	}
	return nil
}

func (c *sock) SetLinger(seconds int) error {
	if t, ok := c.NC.(*net.TCPConn); ok {
		return Unnamed(t.SetLinger(seconds))
	}
	return nil
}

func (c *sock) SetBuffer(bytes int, read bool) error {
	s, ok := c.NC.(interface {
		SetReadBuffer(int) error
		SetWriteBuffer(int) error
	})
	switch {
	case !ok:
		return errors.ErrUnsupported
	case read:
		return Unnamed(s.SetReadBuffer(bytes))
	}
	return Unnamed(s.SetWriteBuffer(bytes))
}

func (c *sock) Raw() (syscall.RawConn, error) {
	s, ok := c.NC.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return s.SyscallConn()
}

// waitReadable reads one byte, because package net cannot peek. If yields is set, the server's end
// ends the wait.
func (c *sock) waitReadable(yields bool) error {
	if len(c.readable) > 0 {
		return nil
	}
	for {
		looks := yields && c.group.Draining()
		if looks { // available bytes are returned before the end
			c.mu.Lock()
			c.nudged = true
			_ = c.NC.SetReadDeadline(time.Now().Add(drainLook))
			c.mu.Unlock()
		}
		c.waits(&c.readWait)
		n, err := c.NC.Read(c.one[:])
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
			return Unnamed(err)
		}
	}
}

// drainLook is how long a read at the server's end may take to find out whether bytes are
// available.
const drainLook = time.Millisecond

// Nudge wakes WaitReadable, which checks whether the server ends.
func (c *sock) Nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint32(c.state.Load())&closedBit == 0 && c.idle.Load() {
		c.nudged = true
		_ = c.NC.SetReadDeadline(time.Unix(1, 0))
	}
}

// unnudge undoes a nudge that woke no call. idle is false by now.
func (c *sock) unnudge() { c.wasNudged() }

// wasNudged reports whether nudge ended a wait, and restores the deadline.
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
	return c.NC.SetReadDeadline(t) == nil
}

func (c *sock) PeerAddr() net.Addr { return c.NC.RemoteAddr() }

func (c *sock) ownAddr() net.Addr { return c.NC.LocalAddr() }

// PeerIP returns the client's address; it is invalid for a unix socket.
func (c *sock) PeerIP() netip.Addr {
	if a, ok := c.NC.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// SendFrom lets package net send up to most bytes of r. It reports false if package net cannot copy
// them, or if the idle timeout must notice the progress. writing is held.
func (c *sock) SendFrom(r io.Reader, most int64) (n int64, ok bool, err error) {
	to, ok := c.NC.(io.ReaderFrom)
	if !ok || c.group.Times.Idle > 0 {
		return 0, false, nil
	}
	c.waits(&c.writeWait)
	n, err = to.ReadFrom(io.LimitReader(r, most))
	c.writeWait.Store(0)
	return n, true, Unnamed(err)
}
