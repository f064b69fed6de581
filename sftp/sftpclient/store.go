package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// Store returns a directory as a store. An upload to it is hidden until it is complete, and then
// gets its name in one step, if the server has OpenSSH's posix-rename. The directory need not exist
// yet. "" is the directory in which the user's session starts.
//
// The files that the store opens are [store.RemoteFile]s, like [File]. Its uploads are
// [store.Filler]s and [store.AttrUpload]s, and with Create.Resume also [store.Resumer]s. Two
// simultaneous uploads to one name are not detected.
//
// The store keeps the contract of [store.Tree] with these exceptions: only the server can ensure
// that links do not lead out of the directory, version 3 has times in whole seconds, and another
// program may change files between two requests.
func (c *Client) Store(dir string) store.Tree {
	if dir == "" {
		dir = "."
	}
	return &remoteTree{c, dir}
}

type remoteTree struct {
	c   *Client
	dir string
}

// maxStoreEntries is the largest number of entries that ReadDir of a store lists.
const maxStoreEntries = 65536

// path converts a name of the store into the server's name.
func (s *remoteTree) path(ctx context.Context, name string) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if !store.ValidName(name) || len(name) > wire.MaxPath {
		return "", fs.ErrInvalid
	}
	p := s.dir + "/" + name
	switch {
	case name == ".":
		p = s.dir
	case s.dir == ".":
		p = name
	case strings.HasSuffix(s.dir, "/"):
		p = s.dir + name
	}
	return p, checkPath(p)
}

// below is like path for names that must not be the root.
func (s *remoteTree) below(ctx context.Context, name string) (string, error) {
	p, err := s.path(ctx, name)
	if err == nil && name == "." {
		err = fmt.Errorf("%w: it is the root", fs.ErrPermission)
	}
	return p, err
}

// shown returns a name of the store in the form for messages: the server's name, which users know.
func (s *remoteTree) shown(name string) string {
	return path.Join(s.dir, name)
}

// fail returns an error with the operation and the name.
func (s *remoteTree) fail(op, name string, err error) error { return fail(op, s.shown(name), err) }

func (s *remoteTree) failLink(op, from, to string, err error) error {
	return failLink(op, s.shown(from), s.shown(to), err)
}

// ask calls f with the server's name for a name of the store.
func ask[T any](ctx context.Context, s *remoteTree, op, name string, f func(context.Context, string) (T, error)) (T, error) {
	var answer T
	p, err := s.path(ctx, name)
	if err == nil {
		answer, err = f(ctx, p)
	}
	return answer, s.fail(op, name, err)
}

// realPath returns the absolute path of a name, without symbolic links. It resolves the links that
// the server does not resolve.
func (s *remoteTree) realPath(ctx context.Context, name string) (string, error) {
	p, err := s.path(ctx, name)
	if err == nil {
		p, err = s.c.RealPath(ctx, p)
	}
	if err == nil {
		p, err = walkLinks(ctx, s.c, p)
	}
	return p, s.fail("realpath", name, err)
}

func (s *remoteTree) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.open(ctx, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, s.fail("open", name, err)
	}
	return f, nil
}

// open opens a regular file. It checks the type first: if the server opened a pipe, it would wait
// for the other end, and all later requests would wait too.
func (s *remoteTree) open(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	p, err := s.path(ctx, name)
	if err != nil {
		return nil, err
	}
	if flag&os.O_EXCL == 0 {
		fi, err := s.c.Stat(ctx, p)
		switch {
		case err == nil && !fi.Mode().IsRegular():
			return nil, store.ErrNotRegular
		case err != nil && (flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist)):
			return nil, err
		}
	}
	return s.c.OpenFile(ctx, p, flag, perm)
}

func (s *remoteTree) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	p, err := s.path(ctx, name)
	if err == nil && name == "." {
		if err = store.ErrNotRegular; c.Exclusive {
			err = fs.ErrExist
		}
	}
	if err != nil {
		return nil, s.fail("create", name, err)
	}
	if c.Resume != "" {
		u, err := createResumable(ctx, s.c, p, c)
		if err != nil {
			return nil, s.fail("create", name, s.c.disk.explain(ctx, p, err))
		}
		return u, nil
	}
	u, err := createUpload(ctx, s.c, p, c)
	if err != nil {
		return nil, s.fail("create", name, s.c.disk.explain(ctx, p, err))
	}
	return u, nil
}

// openListed opens a file that a listing has just described. It needs no STAT, which saves a round
// trip. If the listing does not describe a regular file, it opens the file as Open does.
func (s *remoteTree) openListed(ctx context.Context, name string, listed fs.FileInfo) (store.File, error) {
	attrs, ok := storewire.DescribedBy(listed)
	if !ok || !listed.Mode().IsRegular() || !attrs.Has(wire.AttrSize) {
		return s.Open(ctx, name)
	}
	p, err := s.path(ctx, name)
	if err != nil {
		return nil, s.fail("open", name, err)
	}
	f, err := s.c.openFile(ctx, p, os.O_RDONLY, 0, mux.OpenOptions{Listed: &attrs})
	if err != nil {
		return nil, s.fail("open", name, err)
	}
	return f, nil
}

func (s *remoteTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	flag := os.O_RDONLY
	switch {
	case a.Read && (a.Write || a.Append):
		flag = os.O_RDWR
	case a.Write || a.Append:
		flag = os.O_WRONLY
	case !a.Read, a.Create, a.Exclusive, a.Truncate:
		return nil, s.fail("open", name, fs.ErrInvalid)
	}
	if a.Exclusive && !a.Create {
		return nil, s.fail("open", name, fs.ErrInvalid)
	}
	for _, o := range [...]struct {
		set  bool
		flag int
	}{{a.Append, os.O_APPEND}, {a.Create, os.O_CREATE}, {a.Exclusive, os.O_EXCL}, {a.Truncate, os.O_TRUNC}} {
		if o.set {
			flag |= o.flag
		}
	}
	perm := a.Perm.Perm()
	if perm == 0 {
		perm = 0o644
	}
	f, err := s.open(ctx, name, flag, perm)
	if a.Create {
		err = s.c.disk.explain(ctx, s.shown(name), err)
	}
	if err != nil {
		return nil, s.fail("open", name, err)
	}
	if f.made {
		// The server's umask may have cleared some bits.
		var attrs wire.Attrs
		attrs.SetMode(wire.Mode(perm))
		if err := f.remote.SetAttrs(ctx, attrs); err != nil {
			_ = f.Close()
			return nil, s.fail("open", name, err)
		}
	}
	return f, nil
}

func (s *remoteTree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return ask(ctx, s, "stat", name, s.c.Stat)
}

func (s *remoteTree) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return ask(ctx, s, "lstat", name, s.c.Lstat)
}

func (s *remoteTree) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return ask(ctx, s, "readdir", name, func(ctx context.Context, p string) ([]fs.DirEntry, error) {
		return s.c.readDir(ctx, p, isUpload, maxStoreEntries)
	})
}

func (s *remoteTree) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	p, err := s.path(ctx, name)
	if err != nil {
		return nil, s.fail("readdir", name, err)
	}
	d, err := s.c.openDir(ctx, p, isUpload)
	if err != nil {
		return nil, s.fail("readdir", name, err)
	}
	return d, nil
}

func (s *remoteTree) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	if perm = perm.Perm(); perm == 0 {
		perm = 0o755
	}
	p, err := s.path(ctx, name)
	if err == nil {
		if err = s.c.Mkdir(ctx, p, perm); err == nil {
			err = s.c.Chmod(ctx, p, perm)
		}
	}
	return s.fail("mkdir", name, s.c.disk.explain(ctx, p, err))
}

func (s *remoteTree) Remove(ctx context.Context, name string) error {
	p, err := s.below(ctx, name)
	if err != nil {
		return s.fail("remove", name, err)
	}
	if err = s.c.RemoveFile(ctx, p); isStatus(err) && !errors.Is(err, fs.ErrNotExist) {
		if fi, e := s.c.Lstat(ctx, p); e == nil && fi.IsDir() {
			err = store.ErrNotRegular
		}
	}
	return s.fail("remove", name, err)
}

func (s *remoteTree) RemoveDir(ctx context.Context, name string) error {
	p, err := s.below(ctx, name)
	if err != nil {
		return s.fail("rmdir", name, err)
	}
	if err = s.c.RemoveDir(ctx, p); isStatus(err) && !errors.Is(err, fs.ErrExist) {
		if fi, e := s.c.Lstat(ctx, p); e == nil && !fi.IsDir() {
			err = fmt.Errorf("%w: not a directory", fs.ErrNotExist)
		}
	}
	return s.fail("rmdir", name, err)
}

func (s *remoteTree) Rename(ctx context.Context, from, to string, replace bool) error {
	a, err := s.below(ctx, from)
	var b string
	if err == nil {
		b, err = s.below(ctx, to)
	}
	switch {
	case err != nil:
	case !replace:
		err = s.c.Move(ctx, a, b)
	default:
		err = taken(ctx, s.c, s.c.Rename(ctx, a, b), b)
	}
	return s.failLink("rename", from, to, err)
}

func (s *remoteTree) Link(ctx context.Context, from, to string) error {
	a, err := s.below(ctx, from)
	var b string
	if err == nil {
		b, err = s.below(ctx, to)
	}
	if err == nil {
		err = s.c.Link(ctx, a, b)
	}
	return s.failLink("link", from, to, err)
}

func (s *remoteTree) Symlink(ctx context.Context, target, name string) error {
	p, err := s.below(ctx, name)
	if err == nil {
		err = s.c.Symlink(ctx, target, p)
	}
	return failLink("symlink", target, s.shown(name), err)
}

func (s *remoteTree) Readlink(ctx context.Context, name string) (string, error) {
	return ask(ctx, s, "readlink", name, s.c.Readlink)
}

func (s *remoteTree) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	p, err := s.path(ctx, name)
	if err == nil {
		err = s.c.SetAttr(ctx, p, a, follow)
	}
	return s.fail("setattr", name, err)
}

// Capabilities returns the server's capabilities that are known without a request.
func (s *remoteTree) Capabilities() store.Capabilities {
	return store.Capabilities{
		RealPath:        s.realPath,
		OpenListed:      s.openListed,
		OpenUpload:      s.openUpload,
		RemoveLeftovers: s.removeLeftovers,
		Clone:           clone,
		Distance: &store.Distance{
			RoundTrip:   func() time.Duration { return s.c.mux.RoundTrip() },
			OpenFiles:   func() int { return s.c.server.OpenFiles() },
			TooManyOpen: tooManyOpen,
		},
	}
}

// tooManyOpen reports whether an error from opening a file or a directory may mean that too many
// files and directories are open. OpenSSH's server gives no reason, so any "Failure" may mean that.
func tooManyOpen(err error) bool {
	refused, ok := errors.AsType[*StatusError](err)
	return ok && (errors.Is(refused, storewire.ErrBusy) || refused.Code == uint32(wire.Failure) && refused.kind == nil && !errors.Is(err, store.ErrNoSpace))
}

func (s *remoteTree) Space(ctx context.Context, name string) (store.Space, error) {
	return ask(ctx, s, "space", name, s.c.Space)
}
