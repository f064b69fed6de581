package store

import (
	"context"
	"fmt"
	"io/fs"
	"os"
)

var (
	errReadOnly   = fmt.Errorf("%w: the store is read-only", fs.ErrPermission)
	errCreateOnly = fmt.Errorf("%w: the store takes new files only", fs.ErrPermission)
	errUploadOnly = fmt.Errorf("%w: the store is for uploads only", fs.ErrPermission)
)

// ReadOnly returns t without the right to change it: methods that change something return
// [fs.ErrPermission], and OpenFile opens files only for reading.
func ReadOnly(t Tree) Tree { return readOnly{refusing{t, errReadOnly}} }

// A refusing is the common base of the views. It describes names and refuses every change. It
// leaves out the methods that each view has to implement itself.
type refusing struct {
	tree   Tree
	reason error
}

// Capabilities keeps only the capabilities that neither read content nor change anything.
func (r refusing) Capabilities() Capabilities {
	of := CapabilitiesOf(r.tree)
	return Capabilities{Features: of.Features, Birth: of.Birth}
}

func (r refusing) refuse(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: r.reason}
}

func (r refusing) refuseLink(op, from, to string) error {
	return &os.LinkError{Op: op, Old: from, New: to, Err: r.reason}
}

func (r refusing) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return r.tree.Stat(ctx, name)
}

func (r refusing) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return r.tree.Lstat(ctx, name)
}

func (r refusing) Space(ctx context.Context, name string) (Space, error) {
	return r.tree.Space(ctx, name)
}

func (r refusing) Remove(_ context.Context, name string) error    { return r.refuse("remove", name) }
func (r refusing) RemoveDir(_ context.Context, name string) error { return r.refuse("rmdir", name) }

func (r refusing) Rename(_ context.Context, from, to string, _ bool) error {
	return r.refuseLink("rename", from, to)
}

func (r refusing) Link(_ context.Context, from, to string) error {
	return r.refuseLink("link", from, to)
}

func (r refusing) Symlink(_ context.Context, _, name string) error { return r.refuse("symlink", name) }

func (r refusing) SetAttr(_ context.Context, name string, _ Attr, _ bool) error {
	return r.refuse("setattr", name)
}

type readOnly struct{ refusing }

func (r readOnly) Open(ctx context.Context, name string) (File, error) {
	return r.tree.Open(ctx, name)
}

func (r readOnly) OpenFile(ctx context.Context, name string, a Access) (Handle, error) {
	if a.Writes() {
		return nil, r.refuse("open", name)
	}
	h, err := r.tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	return readHandle{h, r, name}, nil
}

// A readHandle is a handle whose attributes cannot be changed.
type readHandle struct {
	Handle
	view readOnly
	name string
}

// Unwrap is for [As].
func (h readHandle) Unwrap() any { return h.Handle }

func (h readHandle) SetAttr(Attr) error { return h.view.refuse("setattr", h.name) }

func (r readOnly) OpenDir(ctx context.Context, name string) (Entries, error) {
	return r.tree.OpenDir(ctx, name)
}

func (r readOnly) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return r.tree.ReadDir(ctx, name)
}

func (r readOnly) Readlink(ctx context.Context, name string) (string, error) {
	return r.tree.Readlink(ctx, name)
}

func (r readOnly) Create(_ context.Context, name string, _ Create) (Upload, error) {
	return nil, r.refuse("create", name)
}

func (r readOnly) Mkdir(_ context.Context, name string, _ fs.FileMode) error {
	return r.refuse("mkdir", name)
}

func (r readOnly) Space(ctx context.Context, name string) (Space, error) {
	s, err := r.tree.Space(ctx, name)
	s.ReadOnly = err == nil
	return s, err
}
