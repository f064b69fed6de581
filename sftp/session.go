package sftp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// The buffers of a session. The session holds the small ones as long as it lasts, and the big ones
// only while they are in use, because most sessions are idle most of the time. Together they bound
// the memory for a peer that sends and reads no replies.
const (
	smallBuffer = 4 << 10
	bigBuffer   = 272 << 10 // the longest request, or the longest reply and some more

	// bulk is the length from which a request is read only up to its end. Otherwise the bytes
	// behind it would have to be moved to the front.
	bulk = 64 << 10

	// maxData is how many bytes a READ returns at most, and the largest WRITE that
	// limits@openssh.com announces.
	maxData = wire.CommonData

	// smallReply is enough for a reply of fixed size or a STATUS.
	smallReply = 512

	// waitStep is how often a session that waits for the rate limit marks its connection as active.
	waitStep = time.Second
)

// errRequestBeforeInit ends a session, as in OpenSSH.
var errRequestBeforeInit = errors.New("a request came before INIT")

var bigBuffers = sync.Pool{New: func() any { return new([bigBuffer]byte) }}

// A sessionBuffer is a small buffer, or a big one from the pool.
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

// A session speaks SFTP on one channel, on a single goroutine. It answers requests in their order.
// While more requests are available, replies gather, and are sent together.
type session struct {
	conn *userConn
	ctx  context.Context // ends with the channel
	rw   io.ReadWriter

	in  sessionBuffer // b holds the received bytes
	at  int           // how many of them have been processed
	out sessionBuffer // b holds replies that are not sent yet

	request wire.Request // the current request
	begun   bool         // INIT has come
	deaf    bool         // the peer takes no more replies
	flushes int64        // how often the peer has taken replies
	handles handleTable
	long    []byte // scratch space for the line of a name in a listing
}

func newSession(ctx context.Context, c *userConn, rw io.ReadWriter) *session {
	s := &session{conn: c, ctx: ctx, rw: rw}
	s.in.reset()
	s.out.reset()
	return s
}

// serve answers requests until the peer closes the channel, which is no error.
func (s *session) serve() error {
	defer s.end()
	for {
		packet, err := s.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = s.handle(packet)
		}
		if err != nil {
			s.flush() // send the replies to the requests before it
			return err
		}
	}
}

// end releases all resources of the session. Files that the peer did not close count as abandoned.
func (s *session) end() {
	for h := range s.handles.all() {
		s.abandon(h)
	}
	s.in.reset()
	s.out.reset()
}

// abandon closes a handle that the peer did not close, even if the hook for another one panicked.
func (s *session) abandon(h *sessionHandle) {
	defer s.conn.recover(nil)
	_ = s.release(h, s.conn.abandoned()) // the hook gets the error
}

// next waits for the next request and returns it. It sends the replies before it waits. It returns
// io.EOF when the peer has closed the channel between two requests.
func (s *session) next() ([]byte, error) {
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

// fill waits for more bytes. If n is not zero, the buffered bytes begin with a request of n bytes.
func (s *session) fill(n int) error {
	in := &s.in
	rest := len(in.b) - s.at
	switch {
	case rest == 0:
		in.reset()
	case n > smallBuffer || len(in.b) == cap(in.b):
		in.grow()
	}
	if s.at > 0 {
		copy(in.b, in.b[len(in.b)-rest:]) // rest is 0 after reset
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
		return nil // the next read returns the error again
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// flush sends the replies. Until the peer reads them, no more requests are read. When the peer is
// gone, replies are discarded, and of its remaining requests only those that complete its uploads
// are executed: many clients send CLOSE and leave.
func (s *session) flush() {
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

// room makes room for n more bytes of replies. n is at most bigBuffer.
func (s *session) room(n int) {
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

// wait sends the replies and then waits for d. With d of zero or less it does nothing.
func (s *session) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	s.flush()
	for ; d > 0; d -= waitStep {
		if err := rate.Sleep(s.ctx, min(d, waitStep)); err != nil {
			return err
		}
		s.conn.touch() // the peer is not idle: the server makes it wait
	}
	return nil
}

// handle answers one request. An error ends the session.
func (s *session) handle(packet []byte) (err error) {
	s.room(smallReply)
	q := &s.request
	*q, err = wire.ParseRequest(packet)
	if err != nil {
		e, ok := errors.AsType[*wire.Error](err)
		if !ok || !e.HasID || !s.begun {
			return err
		}
		text := "" // an empty text stands for the meaning of the code
		if e.Status == wire.Unsupported {
			_, text = storewire.StatusOf(errors.ErrUnsupported)
		}
		s.out.b = wire.AppendStatus(s.out.b, e.ID, e.Status, text)
		return nil
	}
	if q.Type == wire.TypeInit {
		s.begun = true
		offered := wire.AllExtensions
		if r := s.conn.refuses; r != nil {
			offered &^= r.extensions
		}
		s.out.b = wire.AppendVersion(s.out.b, wire.ProtocolVersion, offered.Pairs())
		return nil
	}
	if !s.begun {
		return fmt.Errorf("%w: %v", errRequestBeforeInit, q.Type)
	}
	if s.deaf && q.Type != wire.TypeWrite && q.Type != wire.TypeFsetstat && q.Type != wire.TypeClose {
		return nil
	}
	return s.answer(q)
}

// resolve returns the store's name for a client's path. It is the only place where paths become
// names: anything that interprets "/" or ".." has to use it.
//
// A path is taken as text, unless [Account].Resolve is set. A path is absolute or begins in the
// home directory. The parent of the root is the root. The directories on the path need not exist,
// so the result does not reveal which do. The store handles symbolic links, and follows none out of
// its root.
func (s *session) resolve(p []byte) (string, error) {
	if bytes.IndexByte(p, 0) >= 0 {
		return "", fs.ErrInvalid
	}
	c := s.conn
	if c.account.Resolve != nil {
		if at := lastParent(p); at > 0 {
			above, err := c.account.Resolve(c.absolute(string(p[:at])))
			return c.join(above + "/" + string(p[at:])), err
		}
	}
	return c.join(string(p)), nil
}

// lastParent returns the index behind the last element ".." of a path, or 0.
func lastParent(p []byte) int {
	for at := len(p); ; {
		at = bytes.LastIndex(p[:at], []byte(".."))
		switch end := at + 2; {
		case at < 0:
			return 0
		case (at == 0 || p[at-1] == '/') && (end == len(p) || p[end] == '/'):
			return end
		}
		at++ // in "..." it may overlap
	}
}

// realpath returns the answer of REALPATH and expand-path.
func (s *session) realpath(p string) (string, error) {
	if s.conn.account.Resolve == nil {
		return shown(s.conn.join(p)), nil
	}
	return s.conn.account.Resolve(s.conn.absolute(p))
}

func (c *userConn) join(p string) string {
	if p = path.Clean(c.absolute(p))[1:]; p == "" {
		return "."
	}
	return p
}

func (c *userConn) absolute(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return "/" + c.home + "/" + p
}

// resolveBoth resolves two paths.
func (s *session) resolveBoth(from, to []byte) (a, b string, err error) {
	if a, err = s.resolve(from); err == nil {
		b, err = s.resolve(to)
	}
	return a, b, err
}

// expand replaces "~" at the beginning by the home directory of the user, and "~user" by that of
// another user.
func (c *userConn) expand(p string) (string, error) {
	user, ok := strings.CutPrefix(p, "~")
	if !ok {
		return p, nil
	}
	user, rest, _ := strings.Cut(user, "/")
	home, ok := c.homeOf(user)
	if !ok {
		return "", fs.ErrNotExist
	}
	return home + "/" + rest, nil
}

// homeOf returns the home directory of a user, as the client sees it. An empty name means the
// account's own user.
func (c *userConn) homeOf(user string) (string, bool) {
	user = cmp.Or(user, c.info.User)
	if c.account.Home != nil {
		return c.account.Home(user)
	}
	return shown(c.home), user == c.info.User
}
