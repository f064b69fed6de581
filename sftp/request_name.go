package sftp

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

func (s *session) stat(q *wire.Request, follow bool) error {
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	if u := s.conn.pending(name); u != nil {
		// fs.ErrClosed means that another channel has just closed the upload. In that case, look in
		// the store.
		if a, err := u.attrs(); err != fs.ErrClosed {
			return s.attrs(a, err)
		}
	}
	look := s.conn.tree.Lstat
	// A trailing slash asks for a directory, to which a symbolic link may lead.
	if follow || bytes.HasSuffix(q.Path, []byte("/")) {
		look = s.conn.tree.Stat
	}
	fi, err := look(s.ctx, name)
	return s.attrs(attrsOf(fi, s.conn.looked("stat", name, err)))
}

func (s *session) fstat(q *wire.Request) error {
	h := s.handles.file(q.Handle)
	switch {
	case h == nil:
		return errNoHandle
	case h.upload != nil:
		return s.attrs(h.upload.attrs())
	}
	return s.attrs(attrsOf(h.file.Stat()))
}

// setstat changes attributes of a named file. [store.Attr] says in which order they are set, and
// which ones have changed if one fails.
func (s *session) setstat(q *wire.Request, follow bool) error {
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	err = fs.ErrClosed
	if u := s.conn.pending(name); u != nil {
		err = u.setAttr(storewire.AttrOf(q.Attrs))
	}
	if err == fs.ErrClosed { // no hidden upload has the name, or it has just been closed
		err = s.conn.tree.SetAttr(s.ctx, name, storewire.AttrOf(q.Attrs), follow)
	}
	return s.conn.audit("setattr", name, "", err)
}

func (s *session) fsetstat(q *wire.Request) error {
	h := s.handles.file(q.Handle)
	if h == nil {
		return errNoHandle
	}
	var err error
	if h.upload != nil {
		err = h.upload.setAttr(storewire.AttrOf(q.Attrs))
	} else {
		err = h.file.SetAttr(storewire.AttrOf(q.Attrs))
	}
	return s.conn.audit("setattr", h.name, "", err)
}

func (s *session) remove(q *wire.Request) error {
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	if err = s.conn.publishOwn(name); err == nil {
		err = s.conn.tree.Remove(s.ctx, name)
	}
	return s.conn.audit("remove", name, "", err)
}

func (s *session) mkdir(q *wire.Request) error {
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	perm := s.conn.perm(q.Attrs, 0o777)
	if err = s.conn.tree.Mkdir(s.ctx, name, perm); err == nil && perm == 0 {
		// Mkdir would read zero permissions as the usual ones, so they are set afterwards. The
		// account had the right to make the directory, so this change needs no further right.
		err = s.conn.account.Tree.SetAttr(s.ctx, name, store.Attr{Mode: new(fs.FileMode)}, false)
	}
	return s.conn.audit("mkdir", name, "", err)
}

func (s *session) rmdir(q *wire.Request) error {
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	err = s.conn.tree.RemoveDir(s.ctx, name)
	if errors.Is(err, fs.ErrExist) {
		err = storewire.ErrNotEmpty
	}
	return s.conn.audit("rmdir", name, "", err)
}

// rename answers RENAME, which fails if the new name is in use, and posix-rename, which replaces an
// existing file.
func (s *session) rename(q *wire.Request, replace bool) error {
	from, to, err := s.conn.paths.resolveBoth(q.Path, q.NewPath)
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
	return s.conn.audit("rename", from, shown(to), err)
}

func (s *session) link(q *wire.Request) error {
	from, to, err := s.conn.paths.resolveBoth(q.Path, q.NewPath)
	if err != nil {
		return err
	}
	if err = s.conn.publishPending(from); err == nil {
		err = s.conn.publishPending(to)
	}
	if err == nil {
		err = s.conn.tree.Link(s.ctx, from, to)
	}
	return s.conn.audit("link", from, shown(to), err)
}

// symlink makes a link with exactly the target that the client sends. The target is checked only
// when the link is followed.
func (s *session) symlink(q *wire.Request) error {
	if s.conn.draft {
		q.Target, q.Path = q.Path, q.Target
	}
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	target := string(q.Target)
	return s.conn.audit("symlink", name, target, s.conn.tree.Symlink(s.ctx, target, name))
}

func (s *session) readlink(q *wire.Request) error {
	name, err := s.conn.paths.resolve(q.Path)
	if err != nil {
		return err
	}
	target, err := s.conn.tree.Readlink(s.ctx, name)
	return s.name(target, s.conn.looked("readlink", name, err))
}
