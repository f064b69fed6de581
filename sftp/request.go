package sftp

import (
	"github.com/haul-project/haul/sftp/internal/wire"
)

// answer answers one request, which is also in s.request. An error ends the
// session; what is wrong with the request alone becomes its answer.
func (s *session) answer(q *wire.Request) error {
	switch q.Type {
	case wire.TypeRead:
		return s.read(q)
	case wire.TypeWrite:
		return s.write(q)
	case wire.TypeOpen:
		return s.status(s.open(q))
	case wire.TypeClose:
		return s.status(s.close(q))
	case wire.TypeStat:
		return s.stat(q, true)
	case wire.TypeLstat:
		return s.stat(q, false)
	case wire.TypeFstat:
		return s.fstat(q)
	case wire.TypeSetstat:
		return s.status(s.setstat(q, true))
	case wire.TypeFsetstat:
		return s.status(s.fsetstat(q))
	case wire.TypeOpendir:
		return s.status(s.opendir(q))
	case wire.TypeReaddir:
		return s.readdir(q)
	case wire.TypeRemove:
		return s.status(s.remove(q))
	case wire.TypeMkdir:
		return s.status(s.mkdir(q))
	case wire.TypeRmdir:
		return s.status(s.rmdir(q))
	case wire.TypeRealpath:
		name, err := s.resolve(q.Path)
		return s.name(shown(name), err)
	case wire.TypeRename:
		return s.status(s.rename(q, false))
	case wire.TypeReadlink:
		return s.readlink(q)
	case wire.TypeSymlink:
		return s.status(s.symlink(q))
	}
	return s.extended(q)
}
