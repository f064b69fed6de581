package sftp

import (
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/users"
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

// errAnswered says that a request has been answered otherwise than by a STATUS.
var errAnswered = &answered{}

type answered struct{}

func (*answered) Error() string { return "answered" }

// status answers by a STATUS, unless err is errAnswered.
func (s *session) status(err error) error {
	if err == errAnswered {
		return nil
	}
	code, text := storewire.StatusOf(s.explain(err))
	s.out.b = wire.AppendStatus(s.out.b, s.request.ID, code, text)
	return nil
}

// explain returns what an error means in the request that it is of, where its
// kind alone says too little.
func (s *session) explain(err error) error {
	q := &s.request
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrExist):
		if s.conn.account.Access == users.UploadOnly && q.Type != wire.TypeMkdir && !errors.Is(err, storewire.ErrNotEmpty) {
			return storewire.ErrKept
		}
	case errors.Is(err, fs.ErrInvalid):
		wantsText := runtime.GOOS == "windows" || runtime.GOOS == "darwin" // others take any bytes
		if wantsText && (!utf8.Valid(q.Path) || !utf8.Valid(q.NewPath)) {
			return storewire.ErrNotUTF8
		}
	}
	return err
}

// name answers by a NAME with one path, or by a STATUS if there is an error.
func (s *session) name(path string, err error) error {
	if err != nil {
		return s.status(err)
	}
	if err := s.room(smallReply + 2*len(path)); err != nil {
		return err
	}
	s.out.b = wire.AppendName(s.out.b, s.request.ID, path)
	return nil
}

// attrs answers by an ATTRS, or by a STATUS if there is an error.
func (s *session) attrs(a wire.Attrs, err error) error {
	if err != nil {
		return s.status(err)
	}
	s.out.b = wire.AppendAttrs(s.out.b, s.request.ID, a)
	return nil
}

func (s *session) stat(q *wire.Request, follow bool) error {
	name, err := s.resolve(q.Path)
	if err != nil {
		return s.status(err)
	}
	if u := s.conn.pending(name); u != nil {
		if a, err := u.attrs(); err != fs.ErrClosed { // not by another channel, just now
			return s.attrs(a, err)
		}
	}
	look := s.conn.tree.Lstat
	if follow {
		look = s.conn.tree.Stat
	}
	fi, err := look(s.ctx, name)
	return s.describe(fi, s.looked("stat", name, err))
}

// describe answers by the attributes of a file.
func (s *session) describe(fi fs.FileInfo, err error) error {
	var a wire.Attrs
	if err == nil {
		a, _ = storewire.AttrsOf(fi)
	}
	return s.attrs(a, err)
}

func (s *session) fstat(q *wire.Request) error {
	h := s.file(q.Handle)
	switch {
	case h == nil:
		return s.status(errNoHandle)
	case h.upload != nil:
		return s.attrs(h.upload.attrs())
	}
	return s.describe(h.file.Stat())
}

// setstat changes attributes by name. The order, and what has been done when
// something fails, is the store's: see [store.Attr].
func (s *session) setstat(q *wire.Request, follow bool) error {
	name, err := s.resolve(q.Path)
	if err != nil {
		return err
	}
	err = fs.ErrClosed
	if u := s.conn.pending(name); u != nil {
		err = u.setAttr(storewire.AttrOf(q.Attrs))
	}
	if err == fs.ErrClosed { // there is none, or it was closed just now
		err = s.conn.tree.SetAttr(s.ctx, name, storewire.AttrOf(q.Attrs), follow)
	}
	return s.audit("setattr", name, "", err)
}

func (s *session) fsetstat(q *wire.Request) error {
	h := s.file(q.Handle)
	if h == nil {
		return errNoHandle
	}
	var err error
	if h.upload != nil {
		err = h.upload.setAttr(storewire.AttrOf(q.Attrs))
	} else {
		err = h.file.SetAttr(storewire.AttrOf(q.Attrs))
	}
	return s.audit("setattr", h.name, "", err)
}

func (s *session) remove(q *wire.Request) error {
	name, err := s.resolve(q.Path)
	if err != nil {
		return err
	}
	if err = s.conn.publishOwn(name); err == nil {
		err = s.conn.tree.Remove(s.ctx, name)
	}
	return s.audit("remove", name, "", err)
}

func (s *session) mkdir(q *wire.Request) error {
	name, err := s.resolve(q.Path)
	if err != nil {
		return err
	}
	perm := s.perm(q.Attrs, 0o777)
	if err = s.conn.tree.Mkdir(s.ctx, name, perm); err == nil && perm == 0 {
		err = s.closeToAll(name)
	}
	return s.audit("mkdir", name, "", err)
}

// perm returns the permission bits for what is made: those asked for, or usual
// ones, less the mask.
func (s *session) perm(a wire.Attrs, usual fs.FileMode) fs.FileMode {
	if a.Has(wire.AttrMode) {
		usual = fs.FileMode(a.Mode.FileMode()).Perm()
	}
	return usual &^ s.conn.server.umask()
}

// closeToAll takes all permissions from what was made just now with none, as the
// store takes that for the usual ones. It had the right to make it, so it needs
// none for this.
func (s *session) closeToAll(name string) error {
	var none fs.FileMode
	return s.conn.account.Tree.SetAttr(s.ctx, name, attrOfMode(none), false)
}

func (s *session) rmdir(q *wire.Request) error {
	name, err := s.resolve(q.Path)
	if err != nil {
		return err
	}
	err = s.conn.tree.RemoveDir(s.ctx, name)
	if errors.Is(err, fs.ErrExist) {
		err = storewire.ErrNotEmpty
	}
	return s.audit("rmdir", name, "", err)
}

// rename is RENAME, which replaces nothing, or posix-rename, which does.
func (s *session) rename(q *wire.Request, replace bool) error {
	from, to, err := s.resolveBoth(q.Path, q.NewPath)
	if err != nil {
		return err
	}
	err = s.conn.publishOwn(from)
	if err == nil {
		err = s.conn.publishOwn(to)
	}
	if err == nil {
		err = s.conn.tree.Rename(s.ctx, from, to, replace)
	}
	if errors.Is(err, fs.ErrInvalid) && strings.HasPrefix(to, from+"/") {
		err = storewire.ErrBelowItself
	}
	return s.audit("rename", from, shown(to), err)
}

func (s *session) link(q *wire.Request) error {
	from, to, err := s.resolveBoth(q.Path, q.NewPath)
	if err != nil {
		return err
	}
	if err = s.conn.publishPending(from); err == nil {
		err = s.conn.publishPending(to)
	}
	if err == nil {
		err = s.conn.tree.Link(s.ctx, from, to)
	}
	return s.audit("link", from, shown(to), err)
}

// symlink makes a link that says what the client wants, to the letter: where it
// leads counts only when it is followed.
func (s *session) symlink(q *wire.Request) error {
	if s.conn.draft {
		q.Target, q.Path = q.Path, q.Target
	}
	name, err := s.resolve(q.Path)
	if err != nil {
		return err
	}
	target := string(q.Target)
	return s.audit("symlink", name, target, s.conn.tree.Symlink(s.ctx, target, name))
}

func (s *session) readlink(q *wire.Request) error {
	name, err := s.resolve(q.Path)
	if err != nil {
		return s.status(err)
	}
	target, err := s.conn.tree.Readlink(s.ctx, name)
	return s.name(target, s.looked("readlink", name, err))
}
