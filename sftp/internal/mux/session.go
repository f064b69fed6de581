package mux

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// sessionBuffer is the size in bytes of the buffer for received packets. It holds many short
	// replies. It is small, so that most of the data of a long reply is read directly into its
	// destination.
	sessionBuffer = 4 << 10

	// maxSend is the largest number of bytes that one Write passes to a channel.
	maxSend = 256 << 10

	// maxGather is the length in bytes up to which a packet of data is copied after other packets,
	// so that one Write sends them all.
	maxGather = 16 << 10

	// maxSpare is the capacity in bytes up to which a buffer of sent requests is kept for reuse.
	maxSpare = 64 << 10

	// longAnswer is how long a server may be silent during a slow request, such as hashing a file.
	// It applies to a connection that cannot be pinged.
	longAnswer = time.Hour

	// sessionEnd is how long a session may take to end after it has failed. After that time, its
	// whole connection is closed.
	sessionEnd = 5 * time.Second
)

// A sessionOwner handles the events of a session. Its methods run under mu, except takeData and
// takeReply: the goroutine that reads the session calls these without holding mu.
type sessionOwner interface {
	// takeData reads the rest of a DATA packet, whose header has been read, and handles the packet.
	takeData(s *Session) error

	// takeReply handles a packet that is not DATA. The whole packet is in s.body.
	takeReply(s *Session) error

	// sent is called when all queued requests without data have been sent.
	sent()

	// ended is called when both goroutines of the session have returned.
	ended(s *Session)
}

// A Session is an SFTP session on an SSH channel or on a stream. One goroutine, the reader, reads
// the replies. Another, the writer, writes the requests: one Write sends all requests that were
// queued since the previous Write.
//
// Only the writer may wait until the server reads. If the reader waited for the server, while the
// server waited for the reader, both would wait for ever.
type Session struct {
	core   *core
	owner  sessionOwner
	conn   *connection
	stream io.ReadWriteCloser
	moved  atomic.Int64 // time of the last sent or received byte, in nanoseconds since 1970

	// Used only by the reader:
	in     *bufio.Reader
	head   [wire.DataHeaderSize]byte
	body   []byte     // the packet that is being handled
	parsed wire.Reply // the parsed content of body
	late   int        // a bit for each answer for which the handshake did not wait: see isLate

	// Guarded by mu:
	n       int  // the session's number in the pool
	ready   bool // the handshake is done, and the goroutines are running
	epoch   int  // value of losses.epoch when the session was opened
	due     sync.Cond
	text    []byte          // requests that are not sent yet
	spare   []byte          // empty buffer that replaces `text` when the writer takes the requests
	sending bool            // the writer is sending requests that it has taken from `text`
	bulk    queue[outgoing] // packets of data, and requests that must follow them; sent after `text`
	pending int             // number of requests that wait for an answer
	slow    int             // number of pending requests whose answers may take long
	running int             // number of running goroutines
	timer   *time.Timer     // calls the method look when it fires
	err     error           // why the session ends or has ended; nil before
	gone    bool            // the session has ended, and its requests were taken back
}

// A memory holds a packet of data. Its method written is called, under mu, when no session needs
// the packet any more.
type memory interface{ written() }

// noMemory is for a packet whose memory need not be released.
type noMemory struct{}

func (noMemory) written() {}

// An outgoing is a packet of data that is queued, or a request that must be sent after such a
// packet.
type outgoing struct {
	b      []byte
	memory memory // its method written is called when b is not needed any more
}

// newSession returns a session that is not in the pool yet.
func newSession(c *core, owner sessionOwner, conn *connection, stream io.ReadWriteCloser) *Session {
	s := &Session{core: c, owner: owner, conn: conn, stream: stream}
	s.due.L = &c.mu
	s.in = bufio.NewReaderSize(sessionReader{s}, sessionBuffer)
	s.timer = time.AfterFunc(time.Hour, s.look)
	s.timer.Stop()
	return s
}

// A sessionReader reads from a session's stream, and records the time at which bytes arrive.
type sessionReader struct{ s *Session }

func (r sessionReader) Read(p []byte) (int, error) {
	n, err := r.s.stream.Read(p)
	if n > 0 {
		r.s.noteMoved()
	}
	return n, err
}

func (s *Session) noteMoved() { s.moved.Store(time.Now().UnixNano()) }

// start starts the reader and the writer.
func (s *Session) start() {
	s.running = 2
	s.core.work.Go(func() { s.end(s.read()) })
	s.core.work.Go(func() { s.end(s.write()) })
}

// end is called when the reader or the writer returns. It locks mu.
func (s *Session) end(err error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.fail(err)
	if s.running--; s.running == 0 {
		s.timer.Stop()
		s.owner.ended(s)
	}
}

// fail makes a session end, with err as the reason.
func (s *Session) fail(err error) {
	if s.err != nil {
		return
	}
	s.err, s.core.last = err, err
	s.due.Signal()
	// Closing a channel may block as long as its connection blocks. If that takes too long, look
	// closes the connection.
	s.core.work.Go(func() { _ = s.stream.Close() })
	s.timer.Reset(sessionEnd)
}

// write sends queued requests until the session ends. It locks mu.
func (s *Session) write() error {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	for {
		for s.err == nil && len(s.text) == 0 && s.bulk.length() == 0 {
			s.due.Wait()
		}
		if s.err != nil {
			s.discardBulk()
			return s.err
		}
		var err error
		if len(s.text) > 0 {
			out := s.text
			s.text, s.spare = s.spare[:0], nil
			s.sending = true
			s.core.mu.Unlock()
			err = s.send(out)
			s.core.mu.Lock()
			s.sending = false
			s.owner.sent()
			if cap(out) <= maxSpare {
				s.spare = out[:0]
			}
		} else {
			o, _ := s.bulk.pop()
			s.core.mu.Unlock()
			err = s.send(o.b)
			s.core.mu.Lock()
			o.memory.written()
		}
		if err != nil {
			s.discardBulk()
			return lost("write", err)
		}
	}
}

// send writes b to the stream. It is called without holding mu.
func (s *Session) send(b []byte) error {
	for len(b) > 0 {
		n, err := s.stream.Write(b[:min(len(b), maxSend)])
		if err != nil {
			return err
		}
		s.noteMoved()
		b = b[n:]
	}
	return nil
}

// discardBulk drops the packets of data that are still queued when the session ends.
func (s *Session) discardBulk() {
	for {
		o, ok := s.bulk.pop()
		if !ok {
			return
		}
		o.memory.written()
	}
}

// push queues a packet of data.
func (s *Session) push(o outgoing) {
	switch {
	case s.err != nil:
		o.memory.written() // the session has failed, so the packet will not be sent
	case len(o.b) <= maxGather:
		s.text = append(s.text, o.b...)
		o.memory.written()
	default:
		s.bulk.push(o)
	}
	s.due.Signal()
}

// takeText removes the queued requests, and returns b with them appended. It locks mu.
func (s *Session) takeText(b []byte) []byte {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	b = append(b, s.text...)
	s.text = s.text[:0]
	return b
}

// expect counts a request for which the server has to send an answer.
func (s *Session) expect(slow bool) {
	if stall := s.core.config.Stall; s.pending == 0 && stall > 0 && s.err == nil {
		s.noteMoved()
		s.timer.Reset(stall)
	}
	s.pending++
	if slow {
		s.slow++
	}
}

// answered counts the answer to a request.
func (s *Session) answered(slow bool) {
	s.pending--
	if slow {
		s.slow--
	}
	if s.pending == 0 && s.err == nil {
		s.timer.Stop()
	}
}

// look checks whether the server has stalled, or whether the session should have ended by now. The
// timer calls it. It locks mu.
func (s *Session) look() {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	switch {
	case s.gone:
		return
	case s.err != nil:
		s.conn.abandon()
		return
	case s.pending == 0:
		return
	}
	stall, idle := s.core.config.Stall, time.Since(time.Unix(0, s.moved.Load()))
	switch {
	case idle < stall:
		s.timer.Reset(stall - idle)
	case s.slow > 0 && (!s.conn.isStream() || idle < longAnswer):
		// Copying or hashing a large file takes long, and later requests wait until it is done. So
		// check only whether the connection is alive.
		s.conn.ping(&s.core.mu)
		s.timer.Reset(stall)
	default:
		s.fail(fmt.Errorf("%w for %v", ErrStalled, idle.Round(time.Second)))
	}
}

// read handles replies until one is invalid or cannot be read.
func (s *Session) read() error {
	for {
		h, err := s.header()
		if err != nil {
			return err
		}
		if h.Type == wire.TypeData {
			err = s.owner.takeData(s)
		} else if err = s.rest(h); err == nil {
			err = s.owner.takeReply(s)
		}
		if err != nil {
			return err
		}
	}
}

// reply reads and parses a whole packet of any type.
func (s *Session) reply() (wire.Reply, error) {
	h, err := s.header()
	if err != nil {
		return wire.Reply{}, err
	}
	if err := s.rest(h); err != nil {
		return wire.Reply{}, err
	}
	p, err := wire.ParseReply(s.body)
	return p, Violation(err)
}

// header reads the header of the next packet.
func (s *Session) header() (wire.Header, error) {
	if _, err := io.ReadFull(s.in, s.head[:wire.HeaderSize]); err != nil {
		return wire.Header{}, lost("read", err)
	}
	h, err := wire.ParseHeader(s.head[:wire.HeaderSize])
	return h, Violation(err)
}

// rest reads the remainder of a packet whose header has been read. After that, s.body holds the
// whole packet.
func (s *Session) rest(h wire.Header) error {
	if cap(s.body) < h.Size {
		s.body = make([]byte, h.Size)
	}
	s.body = s.body[:h.Size]
	n := copy(s.body, s.head[:wire.HeaderSize])
	if _, err := io.ReadFull(s.in, s.body[n:]); err != nil {
		return lost("read", err)
	}
	return nil
}

// A connection is a Carrier with its sessions.
type connection struct {
	carrier Carrier // nil until the connection is open
	owned   bool    // the mux has to close the connection

	// Guarded by mu:
	open    []*Session
	opening int
	limit   int  // the largest number of sessions that the server allows, as far as known
	served  bool // a session has been open on the connection
	pinging bool
}

// isStream reports whether a connection is a stream, which has only one session.
func (c *connection) isStream() bool {
	_, is := c.carrier.(*stream)
	return is
}

// ping checks whether a connection is alive. If the answer to one ping has not arrived by the next
// call, that call abandons the connection. The argument mu is the lock of the mux.
func (c *connection) ping(mu *sync.Mutex) {
	if c.pinging {
		c.abandon()
		return
	}
	c.pinging = true
	go func() { // this goroutine returns at the latest when the connection ends
		err := c.carrier.Ping()
		mu.Lock()
		defer mu.Unlock()
		c.pinging = false
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			c.abandon()
		}
	}()
}

// abandon closes a connection, and makes all of its sessions fail.
func (c *connection) abandon() {
	c.limit = 0
	go func() { _ = c.carrier.Close() }()
	for _, s := range c.open {
		s.fail(ErrStalled)
	}
}
