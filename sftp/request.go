package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// errRequestBeforeInit ends a session whose first request is not INIT. OpenSSH does the same.
var errRequestBeforeInit = errors.New("a request came before INIT")

// serveSession speaks SFTP until the peer closes the session or violates the protocol.
func (c *userConn) serveSession(ctx context.Context, rw io.ReadWriter) (err error) {
	defer c.recover(&err)
	c.server.shared.counts.sessions.Add(1)
	defer c.server.shared.counts.sessions.Add(-1)
	return newSession(ctx, c, rw).serve()
}

// serve answers requests until the peer closes the channel, which is not an error.
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
			s.flush() // send the replies to the requests before the bad one
			return err
		}
	}
}

// end releases all resources of the session. A file that the peer did not close counts as
// abandoned.
func (s *session) end() {
	for h := range s.handles.all() {
		s.abandon(h)
	}
	s.in.reset()
	s.out.reset()
}

// abandon closes a handle that the peer did not close. A panic of a hook does not stop the caller,
// so the other handles are closed too.
func (s *session) abandon(h *sessionHandle) {
	defer s.conn.recover(nil)
	s.conn.unclosed.Store(true)
	_ = s.release(h, s.conn.abandoned()) // the Ended hook receives the error
}

// handle answers one packet. An error means that the session is over.
func (s *session) handle(packet []byte) (err error) {
	s.room(smallReply)
	q := &s.request
	*q, err = wire.ParseRequest(packet)
	if err != nil {
		e, ok := errors.AsType[*wire.Error](err)
		if !ok || !e.HasID || !s.begun {
			return err
		}
		text := "" // "" means the usual text of the status code
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

// answer answers one request; q points to s.request. It returns only errors that end the session.
// An error of the request itself is sent as the reply.
func (s *session) answer(q *wire.Request) error {
	if r := s.conn.refuses; r != nil && r.has(q) {
		s.status(s.refuse(q))
		return nil
	}
	switch q.Type {
	case wire.TypeRead:
		return s.read(q)
	case wire.TypeWrite:
		return s.write(q)
	}
	s.status(s.do(q))
	return nil
}

// do executes a request and returns the error for its STATUS: nil for OK, and errAnswered if do has
// already appended another reply.
func (s *session) do(q *wire.Request) error {
	switch q.Type {
	case wire.TypeOpen:
		return s.open(q)
	case wire.TypeClose:
		return s.close(q)
	case wire.TypeStat:
		return s.stat(q, true)
	case wire.TypeLstat:
		return s.stat(q, false)
	case wire.TypeFstat:
		return s.fstat(q)
	case wire.TypeSetstat:
		return s.setstat(q, true)
	case wire.TypeFsetstat:
		return s.fsetstat(q)
	case wire.TypeOpendir:
		return s.opendir(q)
	case wire.TypeReaddir:
		return s.readdir(q)
	case wire.TypeRemove:
		return s.remove(q)
	case wire.TypeMkdir:
		return s.mkdir(q)
	case wire.TypeRmdir:
		return s.rmdir(q)
	case wire.TypeRealpath:
		return s.answerPath(q, string(q.Path), nil)
	case wire.TypeRename:
		return s.rename(q, false)
	case wire.TypeReadlink:
		return s.readlink(q)
	case wire.TypeSymlink:
		return s.symlink(q)
	}
	return s.extended(q)
}

// refuse reports a request that the account's Refused list names, and returns the error for its
// reply.
func (s *session) refuse(q *wire.Request) error {
	name := typeName(q.Type)
	if q.Type == wire.TypeExtended {
		name = extensionName(q.Extension.String())
	}
	path, err := s.conn.paths.resolve(q.Path)
	if h := s.handles.get(q.Handle); h != nil {
		path = h.name
	}
	if err != nil {
		return err
	}
	return s.conn.looked(name, path, fs.ErrPermission)
}
