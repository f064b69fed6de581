package sftp

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// The buffers of a session. A session always holds its two small buffers. It holds the big ones
// only while they are in use, because most sessions are idle most of the time. The sizes bound the
// memory that a peer can occupy by sending requests and reading no replies.
const (
	smallBuffer = 4 << 10
	bigBuffer   = 272 << 10 // room for the longest request or reply, and a margin

	// bulk is a request size in bytes. For a larger request, a read from the peer stops at the end
	// of the request: bytes of the next request would have to be moved to the front of the buffer.
	bulk = 64 << 10

	// smallReply is enough for a reply of fixed size or a STATUS.
	smallReply = 512

	// waitStep is the interval at which a session that waits for the rate limit marks its
	// connection as active.
	waitStep = time.Second
)

var bigBuffers = sync.Pool{New: func() any { return new([bigBuffer]byte) }}

// A sessionBuffer stores bytes in its own small array, or in a big one from the pool.
type sessionBuffer struct {
	b     []byte
	small [smallBuffer]byte
	big   *[bigBuffer]byte
}

// grow replaces a small buffer by a big one, and keeps its content.
func (b *sessionBuffer) grow() {
	if b.big == nil {
		b.big = bigBuffers.Get().(*[bigBuffer]byte)
		b.b = append(b.big[:0], b.b...)
	}
}

// reset empties the buffer and returns a big one to the pool.
func (b *sessionBuffer) reset() {
	if b.big != nil {
		bigBuffers.Put(b.big)
		b.big = nil
	}
	b.b = b.small[:0]
}

// A stream reads the requests of a session and sends the replies. While more requests are buffered,
// replies are collected, to be sent together.
type stream struct {
	conn *userConn
	ctx  context.Context // ends with the channel
	rw   io.ReadWriter

	in  sessionBuffer // in.b holds the received bytes
	at  int           // how many bytes of in.b have been processed
	out sessionBuffer // out.b holds the replies that are not sent yet

	deaf    bool  // a write to the peer has failed, so replies are dropped
	flushes int64 // number of times that replies were written to the peer
}

// next returns the next request. If none has arrived, it first sends the replies, and then waits.
// It returns io.EOF if the peer closed the channel between two requests.
func (s *stream) next() ([]byte, error) {
	for {
		have := s.in.b[s.at:]
		n, err := wire.PacketLength(have)
		if err != nil {
			return nil, err
		}
		if n > 0 && len(have) >= n {
			s.at += n
			return have[:n:n], nil
		}
		s.flush()
		if s.conn.endIfIdle() {
			return nil, errEnding
		}
		if err := s.fill(n); err != nil {
			if err == io.EOF && len(have) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// fill waits for more bytes from the peer. If n is not zero, the buffered bytes are the beginning
// of a request of n bytes.
func (s *stream) fill(n int) error {
	in := &s.in
	rest := len(in.b) - s.at
	switch {
	case rest == 0:
		in.reset()
	case n > smallBuffer || len(in.b) == cap(in.b):
		in.grow()
	}
	if s.at > 0 {
		copy(in.b, in.b[len(in.b)-rest:]) // `rest` is 0 if `in` was reset
		in.b, s.at = in.b[:rest], 0
	}
	limit := cap(in.b)
	if n > bulk {
		limit = n
	}
	m, err := s.rw.Read(in.b[rest:limit])
	in.b = in.b[:rest+m]
	if m > 0 {
		s.conn.touch()
		return nil // if Read also returned an error, the next Read returns it again
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// flush sends the replies. The session reads no more requests until the peer has accepted the
// replies. If the peer has left, replies are discarded. Of the peer's remaining requests, only
// WRITE, FSETSTAT and CLOSE are executed, because they complete uploads: many clients send CLOSE
// and leave.
func (s *stream) flush() {
	if len(s.out.b) == 0 {
		return
	}
	if s.deaf {
		s.out.b = s.out.b[:0]
		return
	}
	_, err := s.rw.Write(s.out.b)
	s.out.reset()
	if err != nil {
		s.deaf = true
		return
	}
	s.flushes++
	s.conn.touch()
}

// room makes room for n more bytes of replies; n is at most bigBuffer. It may send the collected
// replies to do so.
func (s *stream) room(n int) {
	if cap(s.out.b)-len(s.out.b) < n && len(s.out.b)+n <= bigBuffer {
		s.out.grow()
	}
	if cap(s.out.b)-len(s.out.b) >= n {
		return
	}
	s.flush()
	if n > cap(s.out.b) {
		s.out.grow()
	}
}

// wait sends the replies and then waits for the time d. If d is not positive, it does nothing.
func (s *stream) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	s.flush()
	for ; d > 0; d -= waitStep {
		if err := rate.Sleep(s.ctx, min(d, waitStep)); err != nil {
			return err
		}
		s.conn.touch() // the peer is not idle: it is the server that makes it wait
	}
	return nil
}
