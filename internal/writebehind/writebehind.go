// Package writebehind buffers what is written to a TLS connection, and sends it by a
// goroutine of its own.
//
// It is for net/http's server of HTTP/2, which writes a large answer in frames of 16 KiB,
// starts a goroutine for each, and waits until that has encrypted and sent the frame. As the
// frame has a head, it takes two TLS records and two system calls. A [Conn] accepts a frame
// at the cost of a copy, and fills the records.
package writebehind

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

const (
	// recordSize is the content of a full TLS record (RFC 8446 §5.1).
	recordSize = 16 << 10

	// bufferSize is the size of a buffer. With a quarter of it, the sending goroutine
	// waits more often for the next frame: 4 % more CPU time for a large file.
	bufferSize = 8 * recordSize

	// MaxBuffered is how many bytes of a connection are in memory here at most: one buffer
	// is filled while another is sent. A connection with nothing to send has no buffer.
	MaxBuffered = 2 * bufferSize

	// direct is the size from which on writes are buffered. Smaller ones are sent at once if
	// nothing is before them: another goroutine would cost more than it saves.
	direct = 8 << 10
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// A Conn is a TLS connection whose Write waits for the peer only when the buffers are full.
// If sending fails, later writes return the error. Deadlines for writing have no effect.
//
// It hides that the connection has TLS: net/http's server would take it for one of HTTP/1.
type Conn struct {
	net.Conn
	state *tls.ConnectionState
	stall time.Duration

	mu      sync.Mutex
	changed sync.Cond         // of mu: any of the following
	filling *[bufferSize]byte // mu: nil if filled is 0
	filled  int               // mu: bytes
	sending bool              // mu: what is before filling is being sent
	started bool              // mu: run was
	closed  bool              // mu
	err     error             // mu: why nothing can be sent any more
}

// New returns a Conn over c, whose handshake is complete. A peer that does not take 16 KiB
// within the time of stall loses the connection.
func New(c *tls.Conn, stall time.Duration) *Conn {
	state := c.ConnectionState()
	w := &Conn{Conn: c, state: &state, stall: stall}
	w.changed.L = &w.mu
	return w
}

// TLS describes the TLS of the connection, for [http.Request].
func (c *Conn) TLS() *tls.ConnectionState { return c.state }

// SetDeadline sets the deadline for reading.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline has no effect.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// Write sends or buffers b.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.err != nil:
			return n, c.err
		case c.closed:
			return n, net.ErrClosed
		case len(b) < direct && n == 0 && c.filled == 0 && !c.sending:
			if c.send(b); c.err != nil {
				return 0, c.err
			}
			return len(b), nil
		}
		n += c.fill(b[n:])
		if n == len(b) {
			return n, nil
		}
		c.changed.Wait()
	}
}

// fill buffers the beginning of b, and returns how many bytes that are. mu is held.
func (c *Conn) fill(b []byte) int {
	if c.filling == nil {
		c.filling = buffers.Get().(*[bufferSize]byte)
	}
	n := copy(c.filling[c.filled:], b)
	c.filled += n
	if !c.started {
		c.started = true
		go c.run()
	}
	c.changed.Broadcast()
	return n
}

// run sends what is buffered until the connection is closed or fails.
func (c *Conn) run() {
	c.mu.Lock()
	for {
		for c.err == nil && (c.sending || c.filled == 0 && !c.closed) {
			c.changed.Wait()
		}
		if c.err != nil || c.filled == 0 {
			break
		}
		full, n := c.filling, c.filled
		c.filling, c.filled = nil, 0
		c.send(full[:n])
		buffers.Put(full)
	}
	c.mu.Unlock()
	_ = c.Conn.Close()
}

// send sends b. It releases mu meanwhile.
func (c *Conn) send(b []byte) {
	c.sending = true
	c.changed.Broadcast()
	for len(b) > 0 && c.err == nil {
		if !c.closed {
			_ = c.Conn.SetWriteDeadline(time.Now().Add(c.stall))
		}
		c.mu.Unlock()
		n, err := c.Conn.Write(b[:min(len(b), recordSize)])
		c.mu.Lock()
		b, c.err = b[n:], err
	}
	c.sending = false
	c.changed.Broadcast()
}

// Close ends the connection. Buffered bytes are still sent, as by the kernel, for the time of
// stall at most.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case !c.started:
		c.closed = true
		return c.Conn.Close()
	}
	c.closed = true
	c.changed.Broadcast()
	_ = c.Conn.SetWriteDeadline(time.Now().Add(c.stall))
	return c.Conn.SetReadDeadline(time.Unix(1, 0)) // wakes its reader
}

// Listener returns a listener for the connections of l, which are TLS connections after their
// handshake. stall is that of [New].
func Listener(l net.Listener, stall time.Duration) net.Listener { return listener{l, stall} }

type listener struct {
	net.Listener
	stall time.Duration
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return New(c.(*tls.Conn), l.stall), nil
}
