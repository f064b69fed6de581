package webclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/haul-project/haul/store"
)

// Tree returns the server as a [store.Tree]. HTTP reads, writes, lists and removes files; the other
// methods return errors.ErrUnsupported.
func (c *Client) Tree() store.Tree { return tree{c} }

type tree struct{ *Client }

// lacks returns the error for an operation that a web server does not support.
func lacks(op, name, what string) error {
	return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("%w: a web server cannot %s", errors.ErrUnsupported, what)}
}

func lacksLink(op, from, to, what string) error {
	return &os.LinkError{Op: op, Old: from, New: to, Err: fmt.Errorf("%w: a web server cannot %s", errors.ErrUnsupported, what)}
}

// Lstat is Stat: HTTP has no symbolic links.
func (t tree) Lstat(ctx context.Context, name string) (fs.FileInfo, error) { return t.Stat(ctx, name) }

// Readlink returns fs.ErrInvalid, because HTTP has no symbolic links.
func (t tree) Readlink(_ context.Context, name string) (string, error) {
	return "", t.fail("readlink", name, fs.ErrInvalid)
}

// OpenFile opens a file for reading. A web server accepts only whole files.
func (t tree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	switch err := a.Check(); {
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	case a.Writes():
		return nil, lacks("open", name, "change a part of a file")
	}
	f, err := t.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return handle{f, name}, nil
}

func (t tree) Mkdir(_ context.Context, name string, _ fs.FileMode) error {
	return lacks("mkdir", name, "make directories; it makes them for the files that are sent there, if it does")
}

func (t tree) RemoveDir(_ context.Context, name string) error {
	return lacks("rmdir", name, "remove directories")
}

func (t tree) Rename(_ context.Context, from, to string, _ bool) error {
	return lacksLink("rename", from, to, "rename files")
}

func (t tree) Link(_ context.Context, from, to string) error {
	return lacksLink("link", from, to, "link files")
}

func (t tree) Symlink(_ context.Context, _, name string) error {
	return lacks("symlink", name, "make symbolic links")
}

func (t tree) SetAttr(_ context.Context, name string, _ store.Attr, _ bool) error {
	return lacks("setattr", name, "set times or permissions")
}

func (t tree) Space(_ context.Context, name string) (store.Space, error) {
	return store.Space{}, lacks("space", name, "say how much room it has")
}

// A handle is a [store.Handle] of a file that is open only for reading.
type handle struct {
	store.File
	name string
}

// Unwrap returns the File, for [store.As].
func (h handle) Unwrap() any { return h.File }

func (h handle) WriteAt([]byte, int64) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: h.name, Err: fs.ErrPermission}
}

func (h handle) Truncate(int64) error {
	return &fs.PathError{Op: "truncate", Path: h.name, Err: fs.ErrPermission}
}

func (h handle) SetAttr(store.Attr) error {
	return lacks("setattr", h.name, "set times or permissions")
}

func (h handle) Sync() error { return nil }
