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

// The buffers of a session. It holds the small ones as long as it lasts, and the
// big ones while there is something in them: most sessions wait most of the
// time. Together they bound what is in memory of a peer that sends and takes
// nothing.
const (
	smallBuffer = 4 << 10
	bigBuffer   = 272 << 10 // the longest request, or the longest reply and some more

	// bulk is how long a request must be for its end to be awaited alone. The bytes
	// behind would otherwise have to be moved to the front.
	bulk = 64 << 10

	// maxData is how many bytes a READ returns at most, and limits@openssh.com
	// lets clients write at once.
	maxData = wire.CommonData

	// smallReply is what is enough for a reply of fixed size, or for a STATUS.
	smallReply = 512

	// waitStep is how long a session waits for its turn before it says that it
	// is still there.
	waitStep = time.Second
)

// errRequestBeforeInit ends a session, as it does in OpenSSH.
var errRequestBeforeInit = errors.New("a request came before INIT")

var bigBuffers = sync.Pool{New: func() any { return new([bigBuffer]byte) }}

// A sessionBuffer is small, or a big one that is borrowed.
type sessionBuffer struct {
	b     []byte
	small [smallBuffer]byte
	big   *[bigBuffer]byte
}

// grow makes the buffer a big one. It keeps its content.
func (b *sessionBuffer) grow() {
	if b.big == nil {
		b.big = bigBuffers.Get().(*[bigBuffer]byte)
		b.b = append(b.big[:0], b.b...)
	}
}

// reset empties the buffer, and makes it a small one.
func (b *sessionBuffer) reset() {
	if b.big != nil {
		bigBuffers.Put(b.big)
		b.big = nil
	}
	b.b = b.small[:0]
}

// A session speaks SFTP on one channel. One goroutine does all of it: requests
// are answered in the order in which they came, and while there are more of
// them the replies gather, to go out together.
type session struct {
	conn *userConn
	ctx  context.Context // ends with the channel
	rw   io.ReadWriter

	in  sessionBuffer // b holds what has come, of which
	at  int           // so many bytes have been dealt with
	out sessionBuffer // b holds replies

	request wire.Request // the one in work
	begun   bool         // INIT has come
	deaf    bool         // the peer takes no more replies
	flushes int64        // how often the peer has taken replies
	handles handleTable
	long    []byte // of a name in a listing
}

func newSession(ctx context.Context, c *userConn, rw io.ReadWriter) *session {
	s := &session{conn: c, ctx: ctx, rw: rw}
	s.in.reset()
	s.out.reset()
	return s
}

// serve answers requests until the peer has no more, which is no error.
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
			s.flush() // what was in order before it
			return err
		}
	}
}

// end releases all that the session holds. Files that the peer did not close count as
// abandoned.
func (s *session) end() {
	for h := range s.handles.all() {
		s.abandon(h)
	}
	s.in.reset()
	s.out.reset()
}

// abandon closes what the peer did not, even if a hook panics at the one before.
func (s *session) abandon(h *sessionHandle) {
	defer s.conn.recover(nil)
	_ = s.release(h, s.conn.abandoned()) // which the hook gets
}

// next returns the next request, as long as it takes to come. Replies are sent
// before it waits. It returns io.EOF when the peer has ended, if that is not in
// the midst of a request.
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

// fill waits for more. If n is not zero, a request of n bytes is at the front
// of what is there.
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
		copy(in.b, in.b[len(in.b)-rest:]) // nothing, after reset
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
		return nil // an error comes again
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// flush sends the replies. As long as the peer does not take them, its requests
// are not read. When it is gone they are thrown away, and of what it has sent
// before only that is done which ends what it has begun: many clients send CLOSE
// and leave.
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

// room makes room for n more bytes of replies, at most bigBuffer.
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

// wait lets the replies go, and then time pass, if there is a reason to wait.
func (s *session) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	s.flush()
	for ; d > 0; d -= waitStep {
		if err := rate.Sleep(s.ctx, min(d, waitStep)); err != nil {
			return err
		}
		s.conn.touch() // it is not the peer that is idle
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
		text := "" // the code's meaning
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

// resolve returns the store's name for a path. It is the one place where paths
// of clients become names: all that reads "/" or ".." has to come through here.
//
// A path is taken as text, unless [Account].Resolve says otherwise. It is absolute or
// begins in the home directory, ".." in the root is the root, and nothing on the way has
// to exist, so that it does not show what does. Symbolic links are for the store, which
// follows none out of its root.
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

// lastParent returns where the last ".." among the elements of a path ends, or 0.
func lastParent(p []byte) int {
	for at := len(p); ; {
		at = bytes.LastIndex(p[:at], []byte(".."))
		switch end := at + 2; {
		case at < 0:
			return 0
		case (at == 0 || p[at-1] == '/') && (end == len(p) || p[end] == '/'):
			return end
		}
		at++ // "..." has it twice
	}
}

// realpath returns the path that REALPATH and expand-path answer for a path.
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

// resolveBoth is resolve for two.
func (s *session) resolveBoth(from, to []byte) (a, b string, err error) {
	if a, err = s.resolve(from); err == nil {
		b, err = s.resolve(to)
	}
	return a, b, err
}

// expand replaces "~" at the beginning, which stands for the home directory of the user,
// and "~user", which stands for that of another.
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

// homeOf returns the home directory of a user, as the client has it; the client's own if
// the name is empty.
func (c *userConn) homeOf(user string) (string, bool) {
	user = cmp.Or(user, c.info.User)
	if c.account.Home != nil {
		return c.account.Home(user)
	}
	return shown(c.home), user == c.info.User
}
