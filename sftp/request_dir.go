package sftp

import (
	"io"
	"path"
	"time"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// maxListing is the largest size of a NAME reply, in bytes. The draft requires clients to
	// accept 34000 bytes, and some accept no more.
	maxListing = 32 << 10

	// maxListedName is the length of the longest name that is listed, in bytes. An entry with such
	// a name always fits into a NAME reply. File systems allow 255 bytes.
	maxListedName = wire.MaxPath
)

func (s *session) opendir(q *wire.Request) error {
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	if err := s.conn.reserve(); err != nil {
		return err
	}
	entries, err := s.conn.tree.OpenDir(s.ctx, name)
	if err != nil {
		s.conn.unreserve()
		return s.conn.looked("opendir", name, err)
	}
	l := &dirListing{entries: entries}
	for _, d := range [...]struct{ base, of string }{{".", name}, {"..", path.Dir(name)}} {
		e := dot{name: d.base}
		if fi, err := s.conn.tree.Stat(s.ctx, d.of); err == nil {
			e.attrs, e.links = storewire.AttrsOf(fi)
		}
		l.dots = append(l.dots, e)
	}
	s.enter(&sessionHandle{conn: s.conn, name: name, dir: l}, 0)
	return errAnswered
}

// readdir answers READDIR with as many names as fit into the reply, and at least one.
func (s *session) readdir(q *wire.Request) error {
	h := s.handles.get(q.Handle)
	if h == nil || h.dir == nil {
		return errNoHandle
	}
	s.room(maxListing)
	l, at, now := h.dir, len(s.out.b), time.Now()
	s.out.b = wire.AppendNames(s.out.b, q.ID)
	none := len(s.out.b)
	for {
		d, ok, err := l.peek()
		if err != nil && len(s.out.b) == none {
			s.out.b = s.out.b[:at]
			return err
		}
		if err != nil { // the next READDIR meets the same error and returns it
			return errAnswered
		}
		if !ok {
			l.skip()
			continue
		}
		s.long = wire.AppendLongName(s.long[:0], d.name, d.attrs, d.links, now)
		if len(s.out.b)-at+len(d.name)+len(s.long)+entryOverhead > maxListing {
			return errAnswered
		}
		s.out.b = wire.AppendEntry(s.out.b, at, d.name, s.long, d.attrs)
		l.skip()
	}
}

// entryOverhead is an upper bound for the bytes of an entry without its short and long names.
const entryOverhead = 64

// peek returns the next entry without moving past it. The result ok is false if the entry's name
// cannot be listed.
func (l *dirListing) peek() (d dot, ok bool, err error) {
	if len(l.dots) > 0 {
		return l.dots[0], true, nil
	}
	if len(l.ready) == 0 {
		n, err := l.entries.Next(l.batch[:])
		if n == 0 && err == nil {
			err = io.ErrNoProgress
		}
		if n == 0 {
			return d, false, err
		}
		l.ready = l.batch[:n]
	}
	fi := l.ready[0]
	d.name = fi.Name()
	d.attrs, d.links = storewire.AttrsOf(fi)
	return d, d.name != "" && len(d.name) <= maxListedName, nil
}

// skip moves to the next entry.
func (l *dirListing) skip() {
	if len(l.dots) > 0 {
		l.dots = l.dots[1:]
		return
	}
	l.ready[0] = nil
	l.ready = l.ready[1:]
}
