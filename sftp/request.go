package sftp

import (
	"github.com/haul-project/haul/sftp/internal/wire"
)

// answer answers one request, which is also in s.request. It returns only errors that end the
// session; an error of the request itself becomes the reply.
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

// do executes a request and returns the error for its STATUS: nil for OK, and errAnswered if it has
// appended another reply.
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
