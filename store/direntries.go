package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// OpenDir opens a directory to be listed in pieces: see [Tree]. Open, it holds
// two descriptors and a buffer of 8 KiB, whatever the directory's size.
func (d *DirStore) OpenDir(ctx context.Context, name string) (Entries, error) {
	err := check(ctx, name)
	if err == nil {
		var e *dirEntries
		if e, err = d.openDir(ctx, name); err == nil {
			return e, nil
		}
	}
	return nil, d.fail("opendir", name, err)
}

func (d *DirStore) openDir(ctx context.Context, name string) (*dirEntries, error) {
	if err := d.hook("readdir"); err != nil {
		return nil, err
	}
	// See readDir for the dot.
	dir, err := d.root.OpenRoot(name + "/.")
	if err != nil {
		return nil, err
	}
	names, err := dir.OpenFile(".", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return &dirEntries{store: d, ctx: ctx, name: name, dir: dir, names: names}, nil
}

// dirEntries reads names, and looks each up in the directory itself: a path
// might mean another by then.
type dirEntries struct {
	store  *DirStore
	ctx    context.Context // OpenDir's
	name   string
	dir    *os.Root
	names  *os.File
	closed atomic.Bool
}

func (e *dirEntries) Next(into []fs.FileInfo) (n int, err error) {
	for n == 0 && len(into) > 0 {
		if err := e.ctx.Err(); err != nil {
			return 0, e.store.fail("readdir", e.name, err)
		}
		names, err := e.names.Readdirnames(min(len(into), dirBatch))
		for _, base := range names {
			if fi := e.describe(base); fi != nil {
				into[n] = fi
				n++
			}
		}
		if err != nil && e.closed.Load() {
			err = fs.ErrClosed // the os package has no such error here
		}
		switch {
		case n > 0: // an error comes again
		case err == io.EOF:
			return 0, io.EOF
		case err != nil:
			return 0, e.store.fail("readdir", e.name, err)
		}
	}
	return n, nil
}

// describe returns nil for what is hidden, or has gone.
func (e *dirEntries) describe(base string) fs.FileInfo {
	if isTemp(base) {
		return nil
	}
	fi, err := e.dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return memInfo{name: base, mode: fs.ModeIrregular, modTime: time.Unix(0, 0)}
	}
	return fi
}

func (e *dirEntries) Close() error {
	e.closed.Store(true)
	err := e.names.Close()
	if rootErr := e.dir.Close(); err == nil {
		err = rootErr
	}
	if err != nil {
		return e.store.fail("close", e.name, err)
	}
	return nil
}
