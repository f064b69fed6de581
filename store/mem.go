package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"
)

// DefaultMemLimit is the limit of a [Mem] that names none: 64 MiB.
const DefaultMemLimit = 64 << 20

// memOverhead is what a file counts besides its bytes, so that the limit
// bounds the number of empty files too.
const memOverhead = 512

var _ Store = (*MemStore)(nil)

// A MemStore is a [Store] in memory. See [Mem].
type MemStore struct {
	limit int64

	mu    sync.Mutex
	used  int64               // mu: bytes charged, at most limit
	files map[string]*memFile // mu
	dirs  map[string]int      // mu: for each directory, how many files are below it
}

// Mem returns an empty store that holds at most limit bytes; 0 or less means
// [DefaultMemLimit]. Beyond that, uploads fail with [ErrNoSpace]. A file
// counts 512 bytes more than it is long, and counts until it has been replaced
// and its last reader has closed it. Space set aside for an upload counts.
//
// Its directories are those that the names of its files imply.
func Mem(limit int64) *MemStore {
	if limit <= 0 {
		limit = DefaultMemLimit
	}
	return &MemStore{limit: limit, files: map[string]*memFile{}, dirs: map[string]int{".": 0}}
}

// A memFile is a published file. Its data never changes.
type memFile struct {
	info memInfo
	data []byte
	refs int // MemStore.mu: its name, if it has one, and its readers
}

// Open opens a file for reading. Its data is not copied.
func (m *MemStore) Open(ctx context.Context, name string) (File, error) {
	if err := check(ctx, name); err != nil {
		return nil, memFail("open", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[name]
	if !ok {
		return nil, memFail("open", name, m.missing(name))
	}
	f.refs++
	return &memReader{Reader: bytes.NewReader(f.data), store: m, file: f}, nil
}

// Stat describes a file or a directory.
func (m *MemStore) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := check(ctx, name); err != nil {
		return nil, memFail("stat", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, ok := m.files[name]; ok {
		return f.info, nil
	}
	if _, ok := m.dirs[name]; ok {
		return memInfo{name: path.Base(name), mode: fs.ModeDir | 0o755}, nil
	}
	return nil, memFail("stat", name, fs.ErrNotExist)
}

// Create begins an upload. Directories need not exist.
func (m *MemStore) Create(ctx context.Context, name string, c Create) (Upload, error) {
	if err := check(ctx, name); err != nil {
		return nil, memFail("create", name, err)
	}
	u := &memUpload{store: m, name: name, c: c}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.target(name, c); err != nil {
		return nil, memFail("create", name, err)
	}
	if err := m.charge(memOverhead); err != nil {
		return nil, memFail("create", name, err)
	}
	if err := m.charge(max(c.Size, 0)); err != nil {
		m.used -= memOverhead
		return nil, memFail("create", name, err)
	}
	u.data = make([]byte, 0, max(c.Size, 0))
	return u, nil
}

// missing says why there is no file of that name. The caller holds mu.
func (m *MemStore) missing(name string) error {
	if _, ok := m.dirs[name]; ok {
		return ErrNotRegular
	}
	return fs.ErrNotExist
}

// target returns the permission bits of a file to be published, or an error
// if it may not take its name. The caller holds mu.
func (m *MemStore) target(name string, c Create) (fs.FileMode, error) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := m.files[dir]; ok { // a file is no directory
			return 0, fs.ErrNotExist
		}
	}
	f, isFile := m.files[name]
	_, isDir := m.dirs[name]
	switch {
	case c.Exclusive && (isFile || isDir):
		return 0, fs.ErrExist
	case isDir:
		return 0, ErrNotRegular
	case isFile:
		return f.info.mode, nil
	}
	return c.perm(), nil
}

// charge takes n bytes from the limit. The caller holds mu.
func (m *MemStore) charge(n int64) error {
	if n > m.limit-m.used {
		return fmt.Errorf("%w: limit of %d bytes reached", ErrNoSpace, m.limit)
	}
	m.used += n
	return nil
}

// put gives f its name. The caller holds mu.
func (m *MemStore) put(name string, f *memFile) {
	old, ok := m.files[name]
	m.files[name] = f
	if ok {
		m.drop(old)
		return
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		m.dirs[dir]++
	}
}

// drop takes a reference from f, and its bytes off the count with the last.
// The caller holds mu.
func (m *MemStore) drop(f *memFile) {
	f.refs--
	if f.refs == 0 {
		m.used -= memOverhead + int64(len(f.data))
	}
}

func memFail(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// A memReader is an open file. It seeks and reads as a bytes.Reader does.
type memReader struct {
	*bytes.Reader
	store *MemStore
	file  *memFile
	once  sync.Once
}

var _ TryReader = (*memReader)(nil)

func (r *memReader) Stat() (fs.FileInfo, error) { return r.file.info, nil }

// TryReadAt never has to wait.
func (r *memReader) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, memFail("read", r.file.info.name, fs.ErrInvalid)
	}
	data := r.file.data[min(off, int64(len(r.file.data))):]
	want, n := 0, 0
	for _, b := range bufs {
		want += len(b)
		n += copy(b, data[n:])
	}
	if n == 0 && want > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close lets the file's bytes go once it has also been replaced.
func (r *memReader) Close() error {
	err := memFail("close", r.file.info.name, fs.ErrClosed)
	r.once.Do(func() {
		r.store.mu.Lock()
		defer r.store.mu.Unlock()
		r.store.drop(r.file)
		err = nil
	})
	return err
}

// memInfo is an fs.FileInfo.
type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modTime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
