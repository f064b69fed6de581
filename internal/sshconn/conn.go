// Package sshconn provides the connections under SSH for packages sftp and sftpclient: buffers
// that save system calls, and socket options.
package sshconn

import (
	"net"
	"sync"
	"time"
)

const (
	// connFirst and connMost are the smallest and largest size of a Conn's read buffer, in bytes.
	// The buffer is small at first, because most peers that connect never log in. It doubles each
	// time that a read fills it.
	connFirst = 4 << 10
	connMost  = 128 << 10

	// connGather is how many bytes may wait while a write is under way. If there are more, Write
	// waits.
	connGather = 256 << 10

	// connInline is the size up to which Write itself writes to the socket, if no other write is
	// under way. The peer may be waiting for such a short write, and passing it to another goroutine
	// would delay it.
	connInline = 2 << 10

	// connQuick is how many reads at the beginning of a connection are each followed by a call that
	// makes the kernel acknowledge the data at once. Peers that use Nagle's algorithm, as OpenSSH
	// does, hold back a second small packet until the first one is acknowledged. That matters
	// during the handshake and the login. Later there is usually data to send, which carries the
	// acknowledgement.
	connQuick = 32

	// Linger is how long [Conn.Close] waits for gathered bytes to be sent.
	Linger = time.Second
)

// A Conn sits between x/crypto/ssh and a socket, and saves system calls. x/crypto reads through a
// buffer of 4 KiB and writes each packet in two or three parts. A Conn reads as many bytes as are
// available, and while a write is under way, it gathers later writes for the next one.
//
// So Write returns before all bytes are sent, as it does with a kernel's buffer, and a later call
// returns the error of a failed write. After an error nothing more is sent, not even with a new
// deadline.
type Conn struct {
	net.Conn

	reading sync.Mutex
	in      []byte // the read buffer; guarded by reading
	r, w    int    // in[r:w] has not been returned by Read yet; guarded by reading
	quick   func() // makes the kernel acknowledge received data; nil after connQuick calls; guarded by reading
	quicks  int    // how many times quick was called; guarded by reading

	mu       sync.Mutex
	changed  sync.Cond // wakes goroutines that wait for room in gathered, or for the end of writing; uses mu
	gathered []byte    // bytes for the next write; guarded by mu
	spare    []byte    // the buffer that gathered uses next; nil while flush writes from it; guarded by mu
	writing  bool      // a goroutine writes to the socket, or is about to; guarded by mu
	closed   bool      // Close was called; guarded by mu
	err      error     // the error of the first failed write; guarded by mu
}

// New returns a Conn that reads from c and writes to it.
//
// Write may return before all bytes are sent. If sending them fails, a later Write returns the error.
// Close waits until all bytes are sent, but not longer than [Linger], and then closes c.
func New(c net.Conn) *Conn {
	w := &Conn{Conn: c, in: make([]byte, connFirst), quick: quickAck(c)}
	w.changed.L = &w.mu
	return w
}

// NetConn returns the underlying connection.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Read reads the bytes that are available, as far as p has room. It waits for the first byte.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.r == c.w {
		if len(p) >= len(c.in) {
			n, err := c.Conn.Read(p)
			c.acknowledge()
			c.grow(n)
			return n, err
		}
		n, err := c.Conn.Read(c.in)
		if n == 0 {
			return 0, err // if bytes arrived with an error, the next read returns the error again
		}
		c.acknowledge()
		c.r, c.w = 0, n
	}
	n := copy(p, c.in[c.r:c.w])
	if c.r += n; c.r == c.w {
		c.grow(c.w)
	}
	return n, nil
}

// acknowledge makes the kernel acknowledge received data at once. It does so only for the first few
// reads.
func (c *Conn) acknowledge() {
	if c.quick == nil {
		return
	}
	c.quick()
	if c.quicks++; c.quicks == connQuick {
		c.quick = nil
	}
}

// grow enlarges the read buffer if n bytes, the result of the last read, fill it. All bytes in the
// buffer must have been returned.
func (c *Conn) grow(n int) {
	if n >= len(c.in) && len(c.in) < connMost {
		c.in = make([]byte, 2*len(c.in))
		c.r, c.w = 0, 0
	}
}

// Write writes p to the socket, or appends it to gathered, which flush writes on another goroutine.
// It waits while gathered has no room.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.err != nil:
			return n, c.err
		case c.closed:
			return n, net.ErrClosed
		case len(p) == 0:
			return n, nil
		case !c.writing && n == 0 && len(p) <= connInline:
			return c.write(p)
		}
		some := min(len(p), connGather-len(c.gathered))
		c.gathered = append(c.gathered, p[:some]...)
		n, p = n+some, p[some:]
		if !c.writing {
			c.writing = true
			go c.flush()
		}
		if len(p) > 0 {
			c.changed.Wait()
		}
	}
}

// write writes p to the socket. The caller holds mu, which write unlocks meanwhile. No other write
// may be under way.
func (c *Conn) write(p []byte) (int, error) {
	c.writing = true
	c.mu.Unlock()
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	if err != nil && c.err == nil {
		c.err = err
	}
	if len(c.gathered) > 0 { // gathered meanwhile by another writer
		go c.flush()
		return n, err
	}
	c.writing = false
	c.changed.Broadcast()
	return n, err
}

// flush writes the gathered bytes until none are left. The field writing must be true; flush makes it
// false.
func (c *Conn) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.gathered) > 0 && c.err == nil {
		out := c.gathered
		c.gathered, c.spare = c.spare[:0], nil
		c.changed.Broadcast() // gathered has room again
		c.mu.Unlock()
		_, err := c.Conn.Write(out)
		c.mu.Lock()
		c.spare, c.err = out[:0], err
	}
	c.writing = false
	c.changed.Broadcast()
}

// Close closes the connection. Before that, it sends the bytes that were written, for at most
// [Linger].
func (c *Conn) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		if c.writing {
			_ = c.SetWriteDeadline(time.Now().Add(Linger))
		}
		c.changed.Broadcast()
	}
	for c.writing {
		c.changed.Wait()
	}
	c.mu.Unlock()
	return c.Conn.Close()
}
