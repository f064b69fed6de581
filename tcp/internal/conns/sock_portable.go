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

	readBy   atomic.Int64 // the read deadline, in nanoseconds of Unix time; 0 means no deadline
	mu       sync.Mutex   // guards changes of the deadlines
	nudged   bool         // the read deadline was moved, to wake a waiting call. Guarded by mu
	readable []byte       // the byte that waitReadable has read; guarded by reading
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

// interrupt makes waiting calls of a closed connection return.
func (c *sock) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.NC.SetDeadline(time.Unix(1, 0))
}

// Shutdown closes the connection. Waiting calls return, and later ones fail.
func (c *sock) Shutdown() { _ = c.NC.Close() }

func (c *sock) Discard() { _ = c.NC.Close() }

func (c *sock) SetDeadlines(t time.Time, read, write bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return net.ErrClosed // a later deadline would make calls wait again that Close has interrupted
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

// waitReadable reads one byte and keeps it, because package net cannot look without reading. If
// yields is set, it returns ErrDraining when the server begins to end. The caller holds reading.
func (c *sock) waitReadable(yields bool) error {
	if len(c.readable) > 0 {
		return nil
	}
	for {
		looks := yields && c.group.Draining()
		if looks { // bytes that are already available are still returned, so read for a moment
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
			return nil // the next Read returns io.EOF
		default:
			return Unnamed(err)
		}
	}
}

// drainLook is how long a read waits for bytes that may already be available, once the server is
// ending.
const drainLook = time.Millisecond

// Nudge wakes a waiting WaitReadable, so that it notices that the server is ending.
func (c *sock) Nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uint32(c.state.Load())&closedBit == 0 && c.idle.Load() {
		c.nudged = true
		_ = c.NC.SetReadDeadline(time.Unix(1, 0))
	}
}

// unnudge restores the read deadline if a nudge woke no call. The caller has set idle to false.
func (c *sock) unnudge() { c.wasNudged() }

// wasNudged reports whether the read deadline was moved, and restores it.
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

// PeerIP returns the client's IP address. For a unix socket it is invalid.
func (c *sock) PeerIP() netip.Addr {
	if a, ok := c.NC.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// SendFrom lets package net send at most `most` bytes of r. It returns false if package net cannot
// do that, or if there is an idle timeout: package net does not report progress during a copy. The
// caller holds writing.
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
