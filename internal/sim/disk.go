package sim

import (
	"context"
	"sync"

	"github.com/haul-project/haul/store"
)

// These are the values of [Call].Op: the operations of a store, its files and its uploads.
const (
	Open     = "open"
	Read     = "read"
	TryRead  = "try"
	Create   = "create"
	Write    = "write"
	Truncate = "truncate"
	Commit   = "commit"
)

// A Call describes one call of a method of a Disk, or of its files and uploads.
type Call struct {
	Op   string
	Name string
	N    int // number of calls of this Op so far, including this one
}

// A Disk is a store whose calls a test can delay or make fail. It also counts the files and uploads
// that are open, so that the test can check whether all were closed.
type Disk struct {
	store.Store
	NoTry bool // the files do not implement store.TryReader

	// Before, if set, is called before each call of the store. It may sleep. If it returns an
	// error, the store is not called, and the caller gets that error.
	Before func(Call) error

	mu    sync.Mutex
	calls map[string]int // number of calls, by Op; guarded by mu
	open  int            // number of open files and uploads; guarded by mu
}

// Calls returns the number of calls of an Op so far.
func (d *Disk) Calls(op string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[op]
}

// Unclosed returns how many files and uploads are open.
func (d *Disk) Unclosed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

func (d *Disk) before(op, name string) error {
	d.mu.Lock()
	if d.calls == nil {
		d.calls = map[string]int{}
	}
	d.calls[op]++
	c := Call{Op: op, Name: name, N: d.calls[op]}
	d.mu.Unlock()
	if d.Before == nil {
		return nil
	}
	return d.Before(c)
}

func (d *Disk) count(n int) {
	d.mu.Lock()
	d.open += n
	d.mu.Unlock()
}

// Open opens a file.
func (d *Disk) Open(ctx context.Context, name string) (store.File, error) {
	if err := d.before(Open, name); err != nil {
		return nil, err
	}
	f, err := d.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	d.count(1)
	file := &diskFile{File: f, disk: d, name: name}
	if try, ok := f.(store.TryReader); ok && !d.NoTry {
		return &tryFile{diskFile: file, try: try}, nil
	}
	return file, nil
}

// Create begins an upload.
func (d *Disk) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if err := d.before(Create, name); err != nil {
		return nil, err
	}
	u, err := d.Store.Create(ctx, name, c)
	if err != nil {
		return nil, err
	}
	d.count(1)
	return &diskUpload{Upload: u, disk: d, name: name}, nil
}

type diskFile struct {
	store.File
	disk *Disk
	name string
	once sync.Once
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.disk.before(Read, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *diskFile) Close() error {
	f.once.Do(func() { f.disk.count(-1) })
	return f.File.Close()
}

type tryFile struct {
	*diskFile
	try store.TryReader
}

func (f *tryFile) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if err := f.disk.before(TryRead, f.name); err != nil {
		return 0, err
	}
	return f.try.TryReadAt(bufs, off)
}

type diskUpload struct {
	store.Upload
	disk *Disk
	name string
	once sync.Once
}

func (u *diskUpload) WriteAt(p []byte, off int64) (int, error) {
	if err := u.disk.before(Write, u.name); err != nil {
		return 0, err
	}
	return u.Upload.WriteAt(p, off)
}

func (u *diskUpload) Truncate(size int64) error {
	if err := u.disk.before(Truncate, u.name); err != nil {
		return err
	}
	return u.Upload.Truncate(size)
}

func (u *diskUpload) Commit() error {
	if err := u.disk.before(Commit, u.name); err != nil {
		return err
	}
	return u.Upload.Commit()
}

func (u *diskUpload) Close() error {
	u.once.Do(func() { u.disk.count(-1) })
	return u.Upload.Close()
}
