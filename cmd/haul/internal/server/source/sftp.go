package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
)

const (
	// If a check has shown that a directory is inside the served directory, it is not checked again
	// for dirTime. maxDirs is how many such results are kept.
	dirTime = 10 * time.Second
	maxDirs = 1024
)

// connectSFTP logs in to an SFTP server. It returns the directory to serve, and a function that
// closes the connection.
func connectSFTP(ctx context.Context, m *remote.Mount) (store.Tree, func(), error) {
	files, closeIt, err := m.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	t := &sftpTree{Tree: files, of: store.CapabilitiesOf(files), dirs: map[string]time.Time{}}
	if t.root, err = t.of.RealPath(ctx, "."); err != nil {
		closeIt()
		return nil, nil, fmt.Errorf("the directory to serve: %w", err)
	}
	return t, closeIt, nil
}

// An sftpTree is a directory of an SFTP server. If a symbolic link leads to a file outside the
// directory, the sftpTree does not give access to that file. The server itself would follow such
// links, to everything that its user may read. Clients of haul cannot create links in an upstream,
// so a check just before each use is enough.
type sftpTree struct {
	store.Tree
	of   store.Capabilities // the capabilities of Tree
	root string             // the path of Tree on the server, with links resolved

	mu   sync.Mutex
	dirs map[string]time.Time // directories that were found to be in root, and when; guarded by mu
}

// errOutside is the error for a name that leads out of the served directory. Its text does not
// depend on whether the target exists, so that clients cannot find that out.
var errOutside = fmt.Errorf("%w: a symbolic link leads out of the directory that is served", fs.ErrPermission)

// within returns an error if a symbolic link leads to a path that is neither root nor below it.
func (t *sftpTree) within(ctx context.Context, link string) error {
	real, err := t.of.RealPath(ctx, link) // resolves links that the server has left unresolved
	if err == nil && real != t.root && !strings.HasPrefix(real, strings.TrimSuffix(t.root, "/")+"/") {
		err = errOutside
	}
	return err
}

// dir returns an error if a directory leads out of the served directory.
func (t *sftpTree) dir(ctx context.Context, name string) error {
	if name == "." {
		return nil
	}
	now := time.Now()
	t.mu.Lock()
	found, ok := t.dirs[name]
	t.mu.Unlock()
	if ok && now.Sub(found) < dirTime {
		return nil
	}
	fi, err := t.Lstat(ctx, name) // Lstat also checks the directories above the name
	if err == nil && fi.Mode().Type() == fs.ModeSymlink {
		err = t.within(ctx, name)
	}
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if above, ok := t.dirs[path.Dir(name)]; ok && above.Before(now) {
		now = above // use this result no longer than that for the directory above, on which it depends
	}
	if len(t.dirs) >= maxDirs {
		clear(t.dirs)
	}
	t.dirs[name] = now
	return nil
}

// look describes the file with a name. It follows a symbolic link if the link's target is inside
// the served directory.
func (t *sftpTree) look(ctx context.Context, op, name string) (fs.FileInfo, error) {
	fi, err := t.Lstat(ctx, name)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = &fs.PathError{Op: op, Path: e.Path, Err: e.Err}
	}
	if err != nil || fi.Mode().Type() != fs.ModeSymlink {
		return fi, err
	}
	if err := t.within(ctx, name); err != nil {
		return nil, failed(op, name, err)
	}
	return t.Tree.Stat(ctx, name)
}

// failed adds the operation and the name to an error, unless the error contains them already.
func failed(op, name string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// above returns an error if the directory above a name leads out of the served directory.
func (t *sftpTree) above(ctx context.Context, op, name string) error {
	if !store.ValidName(name) {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if err := t.dir(ctx, path.Dir(name)); err != nil {
		return failed(op, name, err)
	}
	return nil
}

func (t *sftpTree) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := t.above(ctx, "lstat", name); err != nil {
		return nil, err
	}
	return t.Tree.Lstat(ctx, name)
}

func (t *sftpTree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return t.look(ctx, "stat", name)
}

func (t *sftpTree) Open(ctx context.Context, name string) (store.File, error) {
	fi, err := t.look(ctx, "open", name)
	if err != nil {
		return nil, err
	}
	return t.of.OpenListed(ctx, name, fi)
}

func (t *sftpTree) Readlink(ctx context.Context, name string) (string, error) {
	if err := t.above(ctx, "readlink", name); err != nil {
		return "", err
	}
	return t.Tree.Readlink(ctx, name)
}

// list returns an error if a directory to be listed leads out of the served directory.
func (t *sftpTree) list(ctx context.Context, name string) error {
	if !store.ValidName(name) {
		return &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	if err := t.dir(ctx, name); err != nil {
		return failed("readdir", name, err)
	}
	return nil
}

func (t *sftpTree) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if err := t.list(ctx, name); err != nil {
		return nil, err
	}
	return t.Tree.ReadDir(ctx, name)
}

func (t *sftpTree) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	if err := t.list(ctx, name); err != nil {
		return nil, err
	}
	return t.Tree.OpenDir(ctx, name)
}

// target returns an error if writing to a name would write outside the served directory. The file
// need not exist.
func (t *sftpTree) target(ctx context.Context, op, name string) error {
	switch _, err := t.look(ctx, op, name); {
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return nil // for any other fault of the name, the server reports an error itself
	default:
		return err
	}
}

func (t *sftpTree) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if err := t.target(ctx, "create", name); err != nil {
		return nil, err
	}
	return t.Tree.Create(ctx, name, c)
}

func (t *sftpTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if err := t.target(ctx, "open", name); err != nil {
		return nil, err
	}
	return t.Tree.OpenFile(ctx, name, a)
}

func (t *sftpTree) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	if err := t.above(ctx, "mkdir", name); err != nil {
		return err
	}
	return t.Tree.Mkdir(ctx, name, perm)
}

// moved forgets which directories were checked. It is called after a change, because the names of
// these directories may lead elsewhere now.
func (t *sftpTree) moved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.dirs)
}

func (t *sftpTree) Remove(ctx context.Context, name string) error {
	if err := t.above(ctx, "remove", name); err != nil {
		return err
	}
	defer t.moved()
	return t.Tree.Remove(ctx, name)
}

func (t *sftpTree) RemoveDir(ctx context.Context, name string) error {
	if err := t.above(ctx, "rmdir", name); err != nil {
		return err
	}
	defer t.moved()
	return t.Tree.RemoveDir(ctx, name)
}

func (t *sftpTree) Rename(ctx context.Context, from, to string, replace bool) error {
	for _, name := range []string{from, to} {
		if err := t.above(ctx, "rename", name); err != nil {
			return err
		}
	}
	defer t.moved()
	return t.Tree.Rename(ctx, from, to, replace)
}

func (t *sftpTree) Link(ctx context.Context, from, to string) error {
	for _, name := range []string{from, to} {
		if err := t.above(ctx, "link", name); err != nil {
			return err
		}
	}
	return t.Tree.Link(ctx, from, to)
}

func (t *sftpTree) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	check := t.above
	if follow {
		check = t.target
	}
	if err := check(ctx, "setattr", name); err != nil {
		return err
	}
	return t.Tree.SetAttr(ctx, name, a, follow)
}
