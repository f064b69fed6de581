package cache

import (
	"context"
	"io/fs"

	"github.com/haul-project/haul/store"
)

// Create begins an upload to the source.
func (s *front) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := s.source.Create(ctx, name, c)
	if err != nil {
		return nil, err
	}
	return &changingUpload{u, s, name}, nil
}

// A changingUpload is an upload to the source. When it is committed, the cache forgets the older
// version of the file.
type changingUpload struct {
	store.Upload
	s    *front
	name string
}

// Unwrap is for [store.As].
func (u *changingUpload) Unwrap() any { return u.Upload }

func (u *changingUpload) Commit() error {
	defer u.s.changed(u.name) // even a failed Commit may have changed the file
	return u.Upload.Commit()
}

// Capabilities returns those capabilities of the source that also work through a cache: listing,
// removing, birth times, and reading uploads in progress.
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
