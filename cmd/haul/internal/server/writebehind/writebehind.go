// Package writebehind buffers the data that is written to a TLS connection, and sends it in a
// separate goroutine.
//
// It is for net/http's HTTP/2 server, which writes a large answer in frames of 16 KiB. That server
// starts a goroutine for each frame, and waits until the goroutine has encrypted and sent the
// frame. Because of the frame's header, that takes two TLS records and two system calls. A [Conn]
// accepts a frame at the cost of a copy, and sends full records.
//
// A Conn also closes a connection if the client does not finish a request header in time. The
// HTTP/2 server of net/http lacks such a limit; only its HTTP/1 server has one.
package writebehind

import (
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// recordSize is the size of the content of a full TLS record (RFC 8446 §5.1).
	recordSize = 16 << 10

	// bufferSize is the size of a buffer. With buffers of a quarter of this size, the sending
	// goroutine would wait for the next frame more often.
	bufferSize = 8 * recordSize

	// MaxBuffered is the maximum number of bytes that are buffered for one connection: one buffer
	// is filled while another is sent. A connection that has nothing to send holds no buffer.
	MaxBuffered = 2 * bufferSize

	// MaxTotal is the maximum number of bytes that are buffered for all connections of a
	// [Listener]. If no buffer is left for a connection, the connection sends its data unbuffered.
	MaxTotal = maxBuffers * bufferSize

	maxBuffers = 1024

	// direct is the size from which writes are always buffered. If nothing waits to be sent, a
	// smaller write is sent at once, because using another goroutine would cost more than it saves.
	direct = 8 << 10
)

// A buffer holds data that one connection has to send. At any time, either Write fills the buffer,
// or the connection's goroutine sends its content.
type buffer [bufferSize]byte

// A budget holds the buffers for all connections of a [Listener].
type budget struct {
	left atomic.Int64 // number of buffers that connections may still take; briefly negative while take fails
	idle sync.Pool
}

func newBudget(buffers int64) *budget {
	b := &budget{idle: sync.Pool{New: func() any { return new(buffer) }}}
	b.left.Store(buffers)
	return b
}

// take returns a buffer, or nil if none is left.
func (b *budget) take() *buffer {
	if b.left.Add(-1) < 0 {
		b.left.Add(1)
		return nil
	}
	return b.idle.Get().(*buffer)
}

// put returns a buffer to the budget, for any connection to take.
func (b *budget) put(full *buffer) {
	b.idle.Put(full)
	b.left.Add(1)
}

// A Conn is a TLS connection whose Write usually returns before the data is sent. Write waits for
// the peer only if no buffer has room. If sending fails, later calls of Write return the error.
// Write deadlines have no effect.
//
// A Conn must not be a [tls.Conn] for net/http's server, because the server would speak HTTP/1 on
// such a connection.
type Conn struct {
	net.Conn
	state  *tls.ConnectionState
	stall  time.Duration
	budget *budget

	reading  sync.Mutex // held by Read and discard, so that only one of them reads
	heads    heads      // guarded by reading
	headTime time.Duration
	// headEnd is the timer that calls endReading if a request header takes too long. It is nil
	// before the first header; guarded by reading.
	headEnd *time.Timer
	timed   bool // headEnd is running; guarded by reading

	mu      sync.Mutex
	changed sync.Cond // signals a change of any of the fields below
	filling *buffer   // the buffer that Write fills; nil if filled is 0; guarded by mu
	filled  int       // number of bytes in filling; guarded by mu
	sending bool      // the data before that in filling is being sent; guarded by mu
	started bool      // the goroutine run was started; guarded by mu
	closed  bool      // guarded by mu
	late    bool      // a request header took too long, so Read returns io.EOF; guarded by mu
	err     error     // the error after which nothing more can be sent; guarded by mu

	discarded chan struct{} // closed when discard returns; nil if Close did not start discard; guarded by mu
}

// newConn returns a Conn for c, whose handshake is complete. It takes its buffers from b.
func newConn(c *tls.Conn, stall, headTime time.Duration, b *budget) *Conn {
	state := c.ConnectionState()
	w := &Conn{Conn: c, state: &state, stall: stall, budget: b, headTime: headTime, heads: heads{skip: prefaceSize}}
	w.changed.L = &w.mu
	return w
}

// TLS returns the TLS state of the connection, for [http.Request].
func (c *Conn) TLS() *tls.ConnectionState { return c.state }

// SetDeadline sets only the read deadline, because write deadlines have no effect.
func (c *Conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline has no effect, because a Conn sets its own write deadlines.
func (c *Conn) SetWriteDeadline(time.Time) error { return nil }

// Read reads from the connection. If a request header takes too long, Read returns an error, and
// the connection looks as if the client had left.
func (c *Conn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	n, err := c.Conn.Read(b)
	before := c.heads.begun
	c.heads.take(b[:n])
	switch begins := c.heads.open && (!c.timed || c.heads.begun != before); {
	case begins && c.headEnd == nil:
		c.headEnd = time.AfterFunc(c.headTime, c.endReading)
	case begins:
		c.headEnd.Reset(c.headTime)
	case c.timed && !c.heads.open:
		c.headEnd.Stop()
	}
	c.timed = c.heads.open
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.late {
			err = io.EOF
		}
	}
	return n, err
}

// endReading makes reads fail as if the client had left, because a request header took too long.
func (c *Conn) endReading() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.late = true
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// Write sends b at once, or buffers it for the goroutine that sends.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		first := c.filled == 0 && !c.sending
		switch {
		case c.err != nil:
			return n, c.err
		case c.closed:
			return n, net.ErrClosed
		case first && (len(b) < direct && n == 0 || !c.reserve()):
			if c.send(b[n:]); c.err != nil {
				return n, c.err
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

// reserve ensures that c.filling is a buffer, by taking one from the budget if necessary. It
// returns false if no buffer is left. The caller holds mu.
func (c *Conn) reserve() bool {
	if c.filling == nil {
		c.filling = c.budget.take()
	}
	return c.filling != nil
}

// fill buffers the beginning of b, and returns the number of bytes that it has buffered. The caller
// holds mu.
func (c *Conn) fill(b []byte) int {
	if !c.reserve() {
		return 0
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

// run sends buffered data until the connection is closed or fails.
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
		c.budget.put(full)
	}
	if c.filling != nil {
		c.budget.put(c.filling)
		c.filling, c.filled = nil, 0
	}
	discarded, err := c.discarded, c.err
	c.mu.Unlock()
	if discarded != nil && err == nil {
		c.finish()
		<-discarded
	}
	_ = c.Conn.Close()
}

// finish announces to the peer, by TLS and TCP, that no more data follows, so that the peer closes
// the connection too.
func (c *Conn) finish() {
	secure := c.Conn.(*tls.Conn)
	_ = secure.CloseWrite()
	if below, ok := secure.NetConn().(interface{ CloseWrite() error }); ok {
		_ = below.CloseWrite()
	}
}

// discard reads and drops the data that the peer sends after Close, until the peer closes the
// connection or the time `until` has passed. If data remained unread, the kernel would reset the
// connection, and drop data that it still has to send.
func (c *Conn) discard(until time.Time) {
	c.reading.Lock() // this does not wait for long, because Close has interrupted the reader
	defer c.reading.Unlock()
	below := c.Conn.(*tls.Conn).NetConn()
	_ = below.SetReadDeadline(until)
	_, _ = io.Copy(io.Discard, struct{ io.Reader }{below})
	close(c.discarded)
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

// Close closes the connection. Buffered data is still sent after Close has returned, but for at most
// the duration `stall`. If there was such data, the peer then has the same time to close the
// connection.
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
	end := time.Now().Add(c.stall)
	_ = c.Conn.SetWriteDeadline(end)
	err := c.Conn.SetReadDeadline(time.Unix(1, 0)) // interrupts the reader
	if c.filled > 0 || c.sending {
		c.discarded = make(chan struct{})
		go c.discard(end)
	}
	return err
}

// Listener returns a listener for the connections that l accepts. l must return TLS connections
// whose handshake is complete. The new listener returns each of them as a [Conn]. A Conn closes the
// connection if the peer does not accept 16 KiB within stall, or does not complete a request header
// within headTime.
func Listener(l net.Listener, stall, headTime time.Duration) net.Listener {
	return listener{l, stall, headTime, newBudget(maxBuffers)}
}

type listener struct {
	net.Listener
	stall, headTime time.Duration
	budget          *budget
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newConn(c.(*tls.Conn), l.stall, l.headTime, l.budget), nil
}
