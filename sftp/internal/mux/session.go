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
	// sessionBuffer is the size in bytes of the buffer for replies: it has room for many short
	// ones, and is so small that most of the data of a long reply is read straight into its
	// destination.
	sessionBuffer = 4 << 10

	// maxSend is the largest number of bytes in one Write to a channel.
	maxSend = 256 << 10

	// maxGather is the length in bytes up to which a packet of data is copied to the end of other
	// packets so that one Write sends them all.
	maxGather = 16 << 10

	// maxSpare is the size in bytes up to which a buffer for requests is kept for reuse.
	maxSpare = 64 << 10

	// longAnswer is how long a server may be silent during a slow request, such as hashing a file,
	// on a connection that cannot be checked.
	longAnswer = time.Hour

	// sessionEnd is how long a session that has failed may take to end. After that, its connection
	// is closed.
	sessionEnd = 5 * time.Second
)

// A sessionOwner handles the events of a session. Its methods run under mu, except takeData and
// takeReply, which the reader of the session calls without it.
type sessionOwner interface {
	// takeData reads the rest of a DATA packet whose header has been read, and handles the packet.
	takeData(s *Session) error

	// takeReply handles a packet of any other type, which is in body.
	takeReply(s *Session) error

	// sent is called when requests without data have been sent.
	sent()

	// ended is called when both goroutines of the session have ended.
	ended(s *Session)
}

// A Session is an SFTP session on an SSH channel or on a stream. One goroutine reads the replies
// and one writes the requests. One Write sends all requests that have gathered since the last
// Write.
//
// Only the writer may wait until the server reads. If the reader waited for that while the server
// waited for the reader, both would wait for ever.
type Session struct {
	core   *core
	owner  sessionOwner
	conn   *connection
	stream io.ReadWriteCloser
	moved  atomic.Int64 // when a byte was last sent or received, in nanoseconds since 1970

	// Used by the reader only:
	in     *bufio.Reader
	head   [wire.DataHeaderSize]byte
	body   []byte     // the packet being read
	parsed wire.Reply // the content of body
	late   int        // a bit for each answer that the handshake did not wait for: see isLate

	// Under mu:
	n       int  // its number in the pool
	ready   bool // the handshake is over, and the goroutines are running
	epoch   int  // the epoch of losses in which the session was opened
	due     sync.Cond
	text    []byte // requests to be sent
	spare   []byte
	sending bool            // the writer is sending the requests that were in text
	bulk    queue[outgoing] // packets of data, and requests that must not overtake them; sent after text
	pending int             // requests that wait for an answer
	slow    int             // those of the pending requests that may take long
	running int             // running goroutines
	timer   *time.Timer     // calls look
	err     error           // the reason that the session ends
	gone    bool            // the session has ended, and its requests were taken back
}

// A memory holds a packet of data. written is called, under mu, when no session reads the packet
// any more.
type memory interface{ written() }

// noMemory is the memory of a packet that need not be released.
type noMemory struct{}

func (noMemory) written() {}

// An outgoing is a packet of data to be sent, or a request that must follow one.
type outgoing struct {
	b      []byte
	memory memory // the memory that holds b
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

// A sessionReader records when bytes arrive.
type sessionReader struct{ s *Session }

func (r sessionReader) Read(p []byte) (int, error) {
	n, err := r.s.stream.Read(p)
	if n > 0 {
		r.s.noteMoved()
	}
	return n, err
}

func (s *Session) noteMoved() { s.moved.Store(time.Now().UnixNano()) }

// start starts the goroutines.
func (s *Session) start() {
	s.running = 2
	s.core.work.Go(func() { s.end(s.read()) })
	s.core.work.Go(func() { s.end(s.write()) })
}

// end is called when one of the goroutines ends. It takes mu.
func (s *Session) end(err error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.fail(err)
	if s.running--; s.running == 0 {
		s.timer.Stop()
		s.owner.ended(s)
	}
}

// fail ends a session with err.
func (s *Session) fail(err error) {
	if s.err != nil {
		return
	}
	s.err, s.core.last = err, err
	s.due.Signal()
	// Closing a channel may block as long as its connection does. If it takes too long, look closes
	// the connection.
	s.core.work.Go(func() { _ = s.stream.Close() })
	s.timer.Reset(sessionEnd)
}

// write sends requests until the session ends. It takes mu.
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

// send writes b to the stream. It is called without mu.
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

// discardBulk drops packets that will not be sent.
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
		o.memory.written() // the packet will never be sent
	case len(o.b) <= maxGather:
		s.text = append(s.text, o.b...)
		o.memory.written()
	default:
		s.bulk.push(o)
	}
	s.due.Signal()
}

// takeText removes the requests that wait to be sent, and returns them appended to b. It takes mu.
func (s *Session) takeText(b []byte) []byte {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	b = append(b, s.text...)
	s.text = s.text[:0]
	return b
}

// expect counts a request that is being sent.
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

// answered counts the answer to a request that expect has counted.
func (s *Session) answered(slow bool) {
	s.pending--
	if slow {
		s.slow--
	}
	if s.pending == 0 && s.err == nil {
		s.timer.Stop()
	}
}

// look checks a session whose server may have stalled, or that should have ended by now. The timer
// calls it. It takes mu.
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
		// Copying or hashing a large file takes long, and later requests wait for it. So check
		// whether the connection is alive.
		s.conn.ping(&s.core.mu)
		s.timer.Reset(stall)
	default:
		s.fail(fmt.Errorf("%w for %v", ErrStalled, idle.Round(time.Second)))
	}
}

// read handles replies until one cannot be read or is invalid.
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

// reply reads a packet of any type.
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

// header reads the header of a packet.
func (s *Session) header() (wire.Header, error) {
	if _, err := io.ReadFull(s.in, s.head[:wire.HeaderSize]); err != nil {
		return wire.Header{}, lost("read", err)
	}
	h, err := wire.ParseHeader(s.head[:wire.HeaderSize])
	return h, Violation(err)
}

// rest reads the part of a packet after its header. Then body holds the whole packet.
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

// A connection carries sessions.
type connection struct {
	carrier Carrier // nil until the connection is open
	owned   bool    // it is closed with the client

	// Under mu:
	open    []*Session
	opening int
	limit   int  // the largest number of sessions that the server allows, as far as known
	served  bool // it has had a session
	pinging bool
}

// isStream reports whether a connection is a stream, which has only one session.
func (c *connection) isStream() bool {
	_, is := c.carrier.(*stream)
	return is
}

// ping checks whether a connection is alive. If the answer has not arrived by the next call, that
// call abandons the connection. mu is the lock of the mux.
func (c *connection) ping(mu *sync.Mutex) {
	if c.pinging {
		c.abandon()
		return
	}
	c.pinging = true
	go func() { // it ends when the connection does
		err := c.carrier.Ping()
		mu.Lock()
		defer mu.Unlock()
		c.pinging = false
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			c.abandon()
		}
	}()
}

// abandon closes a connection and fails all of its sessions.
func (c *connection) abandon() {
	c.limit = 0
	go func() { _ = c.carrier.Close() }()
	for _, s := range c.open {
		s.fail(ErrStalled)
	}
}
