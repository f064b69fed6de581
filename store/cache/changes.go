package cache

import (
	"context"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/haul-project/haul/store"
)

// forgetName forgets what is known of a name, which has changed, and that names above it are
// absent. It returns the object that it has led to. The caller holds mu.
func (s *front) forgetName(name string) *object {
	if !store.ValidName(name) {
		return nil
	}
	var was *object
	if n := s.names[name]; n != nil {
		was = n.object
		s.lead(n, nil)
		n.clear()
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if n := s.names[dir]; n != nil && n.object == nil {
			n.clear()
		}
	}
	return was
}

// clear forgets what is known. Questions under way were asked before. The caller holds mu.
func (n *entry) clear() {
	n.info, n.open, n.stat = nil, nil, nil
	n.checked, n.known, n.failed, n.absent = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// changed notes that the content of a name has changed, or may have.
func (s *front) changed(name string) {
	s.c.mu.Lock()
	was := s.forgetName(name)
	s.c.mu.Unlock()
	if was != nil {
		s.c.replace(was)
	}
}

// changedBelow notes that a name has changed, and all names below it.
func (s *front) changedBelow(name string) {
	s.c.mu.Lock()
	gone := []*object{s.forgetName(name)}
	for other := range s.names {
		if strings.HasPrefix(other, name+"/") {
			gone = append(gone, s.forgetName(other))
		}
	}
	s.c.mu.Unlock()
	for _, o := range gone {
		if o != nil {
			s.c.replace(o)
		}
	}
}

// Create begins an upload to the source.
func (s *front) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := s.source.Create(ctx, name, c)
	if err != nil {
		return nil, err
	}
	return &changingUpload{u, s, name}, nil
}

// A changingUpload is an upload to a name of which the cache may have another version.
type changingUpload struct {
	store.Upload
	s    *front
	name string
}

// Unwrap is for [store.As].
func (u *changingUpload) Unwrap() any { return u.Upload }

func (u *changingUpload) Commit() error {
	defer u.s.changed(u.name) // even if it fails, something may have changed
	return u.Upload.Commit()
}

// Capabilities keeps listing and removing, and reading what is uploaded to the source.
func (s *front) Capabilities() store.Capabilities {
	of := store.CapabilitiesOf(s.source)
	c := store.Capabilities{Features: of.Features, ReadDir: of.ReadDir, Birth: of.Birth, OpenUpload: of.OpenUpload}
	if of.Remove != nil {
		c.Remove, c.RemoveIf = s.remove, s.removeIf
	}
	return c
}

func (s *front) remove(ctx context.Context, name string) error {
	defer s.changed(name)
	return store.CapabilitiesOf(s.source).Remove(ctx, name)
}

func (s *front) removeIf(ctx context.Context, name string, was fs.FileInfo) error {
	defer s.changed(name)
	return store.RemoveIf(ctx, s.source, name, was)
}

// A treeFront is a front whose source is a tree.
type treeFront struct {
	*front
	tree store.Tree
}

var _ store.Tree = treeFront{}

func (t treeFront) Remove(ctx context.Context, name string) error {
	defer t.changed(name)
	return t.tree.Remove(ctx, name)
}

func (t treeFront) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return t.tree.ReadDir(ctx, name)
}

func (t treeFront) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return t.tree.Lstat(ctx, name)
}

func (t treeFront) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	return t.tree.OpenDir(ctx, name)
}

func (t treeFront) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	defer t.changedBelow(name)
	return t.tree.Mkdir(ctx, name, perm)
}

func (t treeFront) RemoveDir(ctx context.Context, name string) error {
	defer t.changedBelow(name)
	return t.tree.RemoveDir(ctx, name)
}

func (t treeFront) Rename(ctx context.Context, from, to string, replace bool) error {
	defer t.changedBelow(to)
	defer t.changedBelow(from)
	return t.tree.Rename(ctx, from, to, replace)
}

func (t treeFront) Link(ctx context.Context, from, to string) error {
	defer t.changed(to)
	return t.tree.Link(ctx, from, to)
}

func (t treeFront) Symlink(ctx context.Context, target, name string) error {
	defer t.changedBelow(name)
	return t.tree.Symlink(ctx, target, name)
}

func (t treeFront) Readlink(ctx context.Context, name string) (string, error) {
	return t.tree.Readlink(ctx, name)
}

func (t treeFront) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	defer t.changed(name)
	return t.tree.SetAttr(ctx, name, a, follow)
}

func (t treeFront) Space(ctx context.Context, name string) (store.Space, error) {
	return t.tree.Space(ctx, name)
}

// OpenFile opens a file of the source to be written in place. The cache has nothing of it
// until that is closed. To be read only, it is opened as Open does.
func (t treeFront) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if !a.Writes() {
		return t.openToRead(ctx, name, a)
	}
	s := t.front
	s.c.mu.Lock()
	n := s.entry(name)
	n.writers++
	if n.object != nil {
		n.object.written.Store(true)
	}
	s.c.mu.Unlock()
	h, err := t.tree.OpenFile(ctx, name, a)
	s.changed(name)
	if err != nil {
		s.unwritten(n)
		return nil, err
	}
	return &writtenHandle{Handle: h, s: s, name: name, n: n}, nil
}

// unwritten notes that a handle that wrote in place is closed.
func (s *front) unwritten(n *entry) {
	s.c.mu.Lock()
	n.writers--
	s.c.mu.Unlock()
}

// openToRead opens a file to be read where it is.
func (t treeFront) openToRead(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if err := a.Check(); err != nil {
		return t.tree.OpenFile(ctx, name, a) // which has the right error
	}
	f, err := t.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	cached, ok := store.As[*file](f)
	if !ok {
		_ = f.Close()
		return t.tree.OpenFile(ctx, name, a)
	}
	return &readHandle{cached, t, ctx, name}, nil
}
