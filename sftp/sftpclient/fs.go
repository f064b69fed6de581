package sftpclient

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"

	"github.com/haul-project/haul/store"
)

// FS returns a directory as a file system of the standard library, for fs.WalkDir, fs.Glob, http.FS
// and the like. "" is the directory where the user starts. It works until the Client is closed. It
// follows symbolic links wherever they lead.
//
// It is an fs.ReadDirFS, fs.ReadFileFS, fs.StatFS, fs.SubFS and fs.ReadLinkFS.
func (c *Client) FS(dir string) fs.FS {
	return &fileSystem{c.Store(dir).(*remoteTree), c.mux.Context()}
}

type fileSystem struct {
	s   *remoteTree
	ctx context.Context
}

var (
	_ fs.ReadDirFS  = (*fileSystem)(nil)
	_ fs.ReadFileFS = (*fileSystem)(nil)
	_ fs.StatFS     = (*fileSystem)(nil)
	_ fs.SubFS      = (*fileSystem)(nil)
	_ fs.ReadLinkFS = (*fileSystem)(nil)
)

func (f *fileSystem) Open(name string) (fs.File, error) {
	file, err := f.open(name)
	if err == nil {
		return file, nil
	}
	if !errors.Is(err, store.ErrNotRegular) {
		return nil, fail("open", name, err)
	}
	info, err := f.s.Stat(f.ctx, name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fail("open", name, store.ErrNotRegular)
	}
	return &fsDir{f: f, name: name, info: info}, nil
}

func (f *fileSystem) open(name string) (*File, error) {
	p, err := f.s.path(f.ctx, name)
	if err != nil {
		return nil, err
	}
	return f.s.c.Open(f.ctx, p)
}

func (f *fileSystem) ReadDir(name string) ([]fs.DirEntry, error) { return f.s.ReadDir(f.ctx, name) }

func (f *fileSystem) Stat(name string) (fs.FileInfo, error) { return f.s.Stat(f.ctx, name) }

func (f *fileSystem) Lstat(name string) (fs.FileInfo, error) { return f.s.Lstat(f.ctx, name) }

func (f *fileSystem) ReadLink(name string) (string, error) { return f.s.Readlink(f.ctx, name) }

func (f *fileSystem) Sub(dir string) (fs.FS, error) {
	p, err := f.s.path(f.ctx, dir)
	if err != nil {
		return nil, fail("sub", dir, err)
	}
	return f.s.c.FS(p), nil
}

func (f *fileSystem) ReadFile(name string) ([]byte, error) {
	file, err := f.open(name)
	if err != nil {
		return nil, fail("open", name, err)
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		return b, fail("read", name, err)
	}
	return b, nil
}

// An fsDir is an open directory of a fileSystem. It asks the server for entries only when ReadDir
// is called.
type fsDir struct {
	f    *fileSystem
	name string
	info fs.FileInfo

	mu      sync.Mutex
	entries store.Entries // nil before the first ReadDir; guarded by mu
	closed  bool          // guarded by mu
}

func (d *fsDir) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *fsDir) Read([]byte) (int, error) {
	return 0, fail("read", d.name, store.ErrNotRegular)
}

func (d *fsDir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fail("close", d.name, fs.ErrClosed)
	}
	d.closed = true
	if d.entries != nil {
		return d.entries.Close()
	}
	return nil
}

// ReadDir returns the next n entries: see fs.ReadDirFile.
func (d *fsDir) ReadDir(n int) (list []fs.DirEntry, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fail("readdir", d.name, fs.ErrClosed)
	}
	if d.entries == nil {
		if d.entries, err = d.f.s.OpenDir(d.f.ctx, d.name); err != nil {
			d.entries = nil
			return nil, err
		}
	}
	for into := make([]fs.FileInfo, 256); n <= 0 || len(list) < n; {
		if n > 0 {
			into = into[:min(len(into), n-len(list))]
		}
		got, err := d.entries.Next(into)
		for _, fi := range into[:got] {
			list = append(list, fs.FileInfoToDirEntry(fi))
		}
		switch {
		case err == io.EOF && (n <= 0 || len(list) > 0):
			return list, nil
		case err != nil:
			return list, err
		case len(list) > maxEntries:
			return list, fail("readdir", d.name, errTooMany)
		}
	}
	return list, nil
}

var errTooMany = errors.New("too many entries for one list")

// Name returns the last element of the directory's path.
func (d *fsDir) Name() string { return path.Base(d.name) }
