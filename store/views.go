package store

import (
	"context"
	"fmt"
	"io/fs"
	"os"
)

var (
	errReadOnly   = fmt.Errorf("%w: the store is read-only", fs.ErrPermission)
	errUploadOnly = fmt.Errorf("%w: the store is for uploads only", fs.ErrPermission)
)

// ReadOnly returns t without all that changes anything: that is an
// [fs.ErrPermission]. OpenFile opens for reading.
func ReadOnly(t Tree) Tree { return readOnly{refusing{t, errReadOnly}} }

// UploadOnly returns t as a drop box: who puts something in takes nothing out,
// sees little of what is in it, and harms none of it.
//
//   - Files and directories can be added where the name is free: by Create,
//     which is always exclusive, by OpenFile with Create, and by Mkdir.
//   - A file can be written, and its attributes set, but for its owner, by who
//     created it and until he closes it.
//   - A directory can be listed, and shows its directories only, for clients
//     that look where they are.
//   - Who knows a name can ask Stat and Lstat for it, as many clients do when
//     they have sent a file.
//
// All else is an [fs.ErrPermission].
func UploadOnly(t Tree) Tree { return uploadOnly{refusing{t, errUploadOnly}} }

// A refusing Tree describes what there is, and refuses all that changes it and
// whatever else the views do not allow.
type refusing struct {
	tree   Tree
	reason error
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

func (r refusing) Remove(_ context.Context, name string) error { return r.refuse("remove", name) }

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
	if a.writes() {
		return nil, r.refuse("open", name)
	}
	return r.tree.OpenFile(ctx, name, a)
}

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

type uploadOnly struct{ refusing }

func (u uploadOnly) Open(_ context.Context, name string) (File, error) {
	return nil, u.refuse("open", name)
}

func (u uploadOnly) Create(ctx context.Context, name string, c Create) (Upload, error) {
	c.Exclusive = true
	return u.tree.Create(ctx, name, c)
}

func (u uploadOnly) OpenFile(ctx context.Context, name string, a Access) (Handle, error) {
	if a.Read || !a.Create {
		return nil, u.refuse("open", name)
	}
	a.Exclusive = true
	h, err := u.tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	return uploadHandle{h, u, name}, nil
}

func (u uploadOnly) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return u.tree.Mkdir(ctx, name, perm)
}

func (u uploadOnly) Readlink(_ context.Context, name string) (string, error) {
	return "", u.refuse("readlink", name)
}

func (u uploadOnly) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	all, err := u.tree.ReadDir(ctx, name)
	dirs := all[:0]
	for _, e := range all {
		if e.IsDir() {
			dirs = append(dirs, e)
		}
	}
	return dirs, err
}

func (u uploadOnly) OpenDir(ctx context.Context, name string) (Entries, error) {
	e, err := u.tree.OpenDir(ctx, name)
	if err != nil {
		return nil, err
	}
	return dirsOnly{e}, nil
}

// dirsOnly are the directories among the entries of one.
type dirsOnly struct{ Entries }

func (d dirsOnly) Next(into []fs.FileInfo) (int, error) {
	for {
		n, err := d.Entries.Next(into)
		dirs := 0
		for _, fi := range into[:n] {
			if fi.IsDir() {
				into[dirs] = fi
				dirs++
			}
		}
		if dirs > 0 || err != nil || len(into) == 0 {
			return dirs, err
		}
	}
}

// An uploadHandle is a file that its uploader created.
type uploadHandle struct {
	Handle
	view uploadOnly
	name string
}

func (h uploadHandle) SetAttr(a Attr) error {
	if a.owned() {
		return h.view.refuse("setattr", h.name)
	}
	return h.Handle.SetAttr(a)
}
