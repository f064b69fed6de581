package localdir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// OpenDir opens a directory that is listed in pieces: see [store.Tree]. While open, it holds two
// descriptors and a buffer of 8 KiB, regardless of the directory's size.
func (d *Dir) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	err := rules.CheckName(ctx, name)
	if err == nil {
		var e *dirEntries
		if e, err = d.openDir(ctx, name); err == nil {
			return e, nil
		}
	}
	return nil, d.fail("opendir", name, err)
}

func (p *pathCalls) openDir(ctx context.Context, name string) (*dirEntries, error) {
	if err := p.hook("readdir"); err != nil {
		return nil, err
	}
	// See readDir for the reason for "/.".
	dir, err := p.root.directory(name + "/.")
	if err != nil {
		return nil, err
	}
	names, err := dir.OpenFile(".", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return &dirEntries{calls: &p.calls, ctx: ctx, name: name, dir: dir, names: names}, nil
}

// dirEntries reads names, and looks each one up in the open directory rather than by its path,
// which might lead to another directory by then.
type dirEntries struct {
	calls  *calls
	ctx    context.Context // the context of OpenDir
	name   string
	dir    directory
	names  *os.File
	closed atomic.Bool
}

func (e *dirEntries) Next(into []fs.FileInfo) (n int, err error) {
	for n == 0 && len(into) > 0 {
		if err := e.ctx.Err(); err != nil {
			return 0, e.calls.fail("readdir", e.name, err)
		}
		names, err := e.names.Readdirnames(min(len(into), dirBatch))
		for _, base := range names {
			if fi := e.describe(base); fi != nil {
				into[n] = fi
				n++
			}
		}
		if err != nil && e.closed.Load() {
			err = fs.ErrClosed // the os package returns a different error for a closed file
		}
		switch {
		case n > 0: // return the entries now; the next call gets the error again
		case err == io.EOF:
			return 0, io.EOF
		case err != nil:
			return 0, e.calls.fail("readdir", e.name, err)
		}
	}
	return n, nil
}

// describe returns the description of an entry. It returns nil for a temporary file, and for an
// entry that no longer exists.
func (e *dirEntries) describe(base string) fs.FileInfo {
	if isTemp(base) {
		return nil
	}
	fi, err := e.dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return irregular(base)
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
		return e.calls.fail("close", e.name, err)
	}
	return nil
}

// ReadDir lists a directory: see [store.Tree]. Each entry is described only when its Info is
// called; Info fails if the entry no longer exists.
func (d *Dir) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return nil, d.fail("readdir", name, err)
	}
	entries, err := d.readDir(ctx, name, rules.MaxEntries)
	if err != nil {
		return nil, d.fail("readdir", name, err)
	}
	rules.SortEntries(entries)
	return entries, nil
}

func (p *pathCalls) readDir(ctx context.Context, name string, most int) ([]fs.DirEntry, error) {
	if err := p.hook("readdir"); err != nil {
		return nil, err
	}
	// The "/." at the end makes root open the name only if it is a directory, and never a pipe or a
	// device.
	f, err := p.root.OpenFile(name+"/.", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []fs.DirEntry
	for {
		batch, err := f.ReadDir(dirBatch)
		for _, e := range batch {
			if isTemp(e.Name()) {
				continue
			}
			if len(list) == most {
				return nil, rules.ErrManyEntries
			}
			list = append(list, dirEntry{e, p, path.Join(name, e.Name())})
		}
		if err == io.EOF {
			return list, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
}

// A dirEntry gets its description through the store's root. The os package's own type would use a
// path, and a directory on that path may have become a link meanwhile.
type dirEntry struct {
	fs.DirEntry
	calls *pathCalls
	path  string
}

// Info describes the entry itself: it does not follow a link.
func (e dirEntry) Info() (fs.FileInfo, error) {
	fi, err := e.calls.root.Lstat(e.path)
	if err != nil {
		return nil, e.calls.fail("stat", e.path, err)
	}
	return fi, nil
}

// eachName calls f with each name in a directory, including temporary files, until f returns false.
// It returns false if f did.
func (p *pathCalls) eachName(ctx context.Context, dir string, f func(base string) bool) (bool, error) {
	list, err := p.openDir(ctx, dir)
	if err != nil {
		return false, err
	}
	defer list.Close()
	for {
		names, err := list.names.Readdirnames(dirBatch)
		for _, base := range names {
			if !f(base) {
				return false, nil
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return false, err
		}
	}
}

// An irregular is the description of an entry of which only the name is known.
type irregular string

func (i irregular) Name() string     { return string(i) }
func (irregular) Size() int64        { return 0 }
func (irregular) Mode() fs.FileMode  { return fs.ModeIrregular }
func (irregular) ModTime() time.Time { return time.Unix(0, 0) }
func (irregular) IsDir() bool        { return false }
func (irregular) Sys() any           { return nil }
