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
	// sessionBuffer is how many bytes of replies are read ahead: enough for many short
	// ones, and so few that most of the data of a long one is read straight into its place.
	sessionBuffer = 4 << 10

	// maxSend is the most bytes in one Write to a channel.
	maxSend = 256 << 10

	// maxGather is the longest packet of data, in bytes, that is copied to others so that
	// one Write sends them all.
	maxGather = 16 << 10

	// maxSpare is the largest buffer for requests that is kept, in bytes.
	maxSpare = 64 << 10

	// longAnswer is how long a server may be silent over a slow request, such as to hash a
	// file, on a connection that cannot be checked.
	longAnswer = time.Hour

	// sessionEnd is how long a session that has failed may take to end. Then its connection
	// is closed.
	sessionEnd = 5 * time.Second
)

// A sessionOwner handles what happens in a session. Its methods run under mu, except
// takeData and takeReply, which the reader of the session calls without it.
type sessionOwner interface {
	// takeData reads the rest of a DATA packet, whose header has been read, and handles it.
	takeData(s *Session) error

	// takeReply handles any other packet, which is in body.
	takeReply(s *Session) error

	// sent is called when requests without data have been sent.
	sent()

	// ended is called when both goroutines of a session have ended.
	ended(s *Session)
}

// A Session is one SFTP session on an SSH channel, or on a stream. One goroutine reads the
// replies and one writes the requests: one Write sends all that have gathered since the last.
//
// Only the writer may wait for the server to read. If the reader waited for that, and the
// server for the reader, both would wait for ever.
type Session struct {
	core   *core
	owner  sessionOwner
	conn   *connection
	stream io.ReadWriteCloser
	moved  atomic.Int64 // when a byte last went either way, in nanoseconds since 1970

	// Of the reader:
	in     *bufio.Reader
	head   [wire.DataHeaderSize]byte
	body   []byte     // the packet that is read
	parsed wire.Reply // what it says
	late   int        // answers that the handshake did not wait for: see isLate

	// Under mu:
	n       int  // its number in the pool
	ready   bool // the handshake is over, and the goroutines run
	epoch   int  // of losses, when it was opened
	due     sync.Cond
	text    []byte // requests to be sent
	spare   []byte
	sending bool            // the writer sends what was in text
	bulk    queue[outgoing] // packets of data, and what must not overtake them; sent after text
	pending int             // requests to be answered
	slow    int             // of these, requests that may take long
	running int             // goroutines
	timer   *time.Timer     // calls look
	err     error           // why it ends
	gone    bool            // it has ended
}

// A memory is what a packet of data is in. written is called, under mu, when no session
// reads the packet any more.
type memory interface{ written() }

// noMemory is the memory of a packet that needs no release.
type noMemory struct{}

func (noMemory) written() {}

// An outgoing is a packet of data that is to be sent, or a request behind one.
type outgoing struct {
	b      []byte
	memory memory // what b is in
}

// newSession returns a session that only its caller knows.
func newSession(c *core, owner sessionOwner, conn *connection, stream io.ReadWriteCloser) *Session {
	s := &Session{core: c, owner: owner, conn: conn, stream: stream}
	s.due.L = &c.mu
	s.in = bufio.NewReaderSize(sessionReader{s}, sessionBuffer)
	s.timer = time.AfterFunc(time.Hour, s.look)
	s.timer.Stop()
	return s
}

// A sessionReader notes when bytes come.
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

// end ends one of the goroutines. It takes mu.
func (s *Session) end(err error) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.fail(err)
	if s.running--; s.running == 0 {
		s.timer.Stop()
		s.owner.ended(s)
	}
}

// fail makes a session end.
func (s *Session) fail(err error) {
	if s.err != nil {
		return
	}
	s.err, s.core.last = err, err
	s.due.Signal()
	// Closing a channel may block for as long as the connection does. If it takes too long,
	// look closes the connection.
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

// send writes b to the stream, without mu.
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
		o.memory.written() // it will never be sent
	case len(o.b) <= maxGather:
		s.text = append(s.text, o.b...)
		o.memory.written()
	default:
		s.bulk.push(o)
	}
	s.due.Signal()
}

// takeText returns requests that wait to be sent, appended to b. They are not sent any more.
// It takes mu.
func (s *Session) takeText(b []byte) []byte {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	b = append(b, s.text...)
	s.text = s.text[:0]
	return b
}

// expect counts a request that is sent.
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

// answered counts an answer to such a request.
func (s *Session) answered(slow bool) {
	s.pending--
	if slow {
		s.slow--
	}
	if s.pending == 0 && s.err == nil {
		s.timer.Stop()
	}
}

// look checks a session whose server may have stalled, or that should have ended by now. The
// timer calls it; it takes mu.
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
		// It takes long to copy or to hash a large file, and the requests behind it wait.
		// Check whether the connection is alive.
		s.conn.ping(&s.core.mu)
		s.timer.Reset(stall)
	default:
		s.fail(fmt.Errorf("%w for %v", ErrStalled, idle.Round(time.Second)))
	}
}

// read takes replies until one cannot be read or is invalid.
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

// rest reads what follows the header of a packet. Then body is all of the packet.
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

// A connection has sessions.
type connection struct {
	carrier Carrier // nil until it is made
	owned   bool    // to be closed with the client

	// Under mu:
	open    []*Session
	opening int
	limit   int  // sessions that the server allows, as far as known
	served  bool // it has had a session
	pinging bool
}

// isStream reports whether a connection is a stream, which has a single session.
func (c *connection) isStream() bool {
	_, is := c.carrier.(*stream)
	return is
}

// ping checks whether a connection is alive, and abandons it if the answer has not come by
// the next call. mu is the lock of the mux.
func (c *connection) ping(mu *sync.Mutex) {
	if c.pinging {
		c.abandon()
		return
	}
	c.pinging = true
	go func() { // it ends with the connection
		err := c.carrier.Ping()
		mu.Lock()
		defer mu.Unlock()
		c.pinging = false
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			c.abandon()
		}
	}()
}

// abandon closes a connection under all of its sessions.
func (c *connection) abandon() {
	c.limit = 0
	go func() { _ = c.carrier.Close() }()
	for _, s := range c.open {
		s.fail(ErrStalled)
	}
}
