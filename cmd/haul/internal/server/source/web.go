package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web/webclient"
)

// connectWeb returns the directory of a web server.
func connectWeb(ctx context.Context, m *remote.Mount) (store.Tree, func(), error) {
	files, closeIt, err := m.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	return webTree{files.(*webclient.Client)}, closeIt, nil
}

// A webTree is a web server as a [store.Tree]. HTTP reads, writes, lists and removes files;
// all else is errors.ErrUnsupported.
type webTree struct{ *webclient.Client }

// lacks says what a web server cannot do.
func lacks(op, name, what string) error {
	return &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("%w: a web server cannot %s", errors.ErrUnsupported, what)}
}

// OpenFile opens a file to be read. A web server takes whole files only.
func (t webTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
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
	return webHandle{f, name}, nil
}

// A webHandle is a file that can be read only.
type webHandle struct {
	store.File
	name string
}

func (h webHandle) WriteAt([]byte, int64) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: h.name, Err: fs.ErrPermission}
}

func (h webHandle) Truncate(int64) error {
	return &fs.PathError{Op: "truncate", Path: h.name, Err: fs.ErrPermission}
}

func (h webHandle) SetAttr(store.Attr) error {
	return lacks("setattr", h.name, "set times or permissions")
}
func (h webHandle) Sync() error { return nil }

// Mkdir refuses: directories come to be with the first file in them.
func (t webTree) Mkdir(_ context.Context, name string, _ fs.FileMode) error {
	return lacks("mkdir", name, "make directories; it makes them for the files that are sent there, if it does")
}

// RemoveDir refuses.
func (t webTree) RemoveDir(_ context.Context, name string) error {
	return lacks("rmdir", name, "remove directories")
}

// Rename refuses.
func (t webTree) Rename(_ context.Context, from, to string, _ bool) error {
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: fmt.Errorf("%w: a web server cannot rename files", errors.ErrUnsupported)}
}

// Link refuses.
func (t webTree) Link(_ context.Context, from, to string) error {
	return &os.LinkError{Op: "link", Old: from, New: to, Err: fmt.Errorf("%w: a web server cannot link files", errors.ErrUnsupported)}
}

// Symlink refuses.
func (t webTree) Symlink(_ context.Context, _, name string) error {
	return lacks("symlink", name, "make symbolic links")
}

// SetAttr refuses.
func (t webTree) SetAttr(_ context.Context, name string, _ store.Attr, _ bool) error {
	return lacks("setattr", name, "set times or permissions")
}

// Space refuses.
func (t webTree) Space(_ context.Context, name string) (store.Space, error) {
	return store.Space{}, lacks("space", name, "say how much room it has")
}
