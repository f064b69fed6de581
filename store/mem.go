package store

import (
	"context"
	"io/fs"
	"path"
	"sync"
)

// DefaultMemLimit is the limit of a [Mem] or [Sink] that names none: 64 MiB.
const DefaultMemLimit = 64 << 20

// memOverhead is what a file counts besides its bytes, and what a directory
// counts, so that the limit bounds the number of empty ones too.
const memOverhead = 512

var (
	_ Store  = (*MemStore)(nil)
	_ Lister = (*MemStore)(nil)
)

// A MemStore is a [Store] in memory. See [Mem].
type MemStore struct {
	budget budget

	mu    sync.Mutex
	files map[string]*memFile            // mu
	dirs  map[string]map[string]struct{} // mu: each directory's entries
}

// Mem returns an empty store that holds at most limit bytes; 0 or less means
// [DefaultMemLimit]. Beyond that, uploads fail with [ErrNoSpace]. A file
// counts 512 bytes more than it is long, and counts until it has been replaced
// and its last reader has closed it. Space set aside for an upload counts.
//
// Its directories are those that the names of its files imply. Each counts 512
// bytes.
//
// On Linux, files of 256 KiB and more live outside the garbage collected heap,
// in mappings that grow without being copied. They count whole pages, and
// memory that the kernel refuses is an ErrNoSpace too. Commit copies nothing:
// the readers read what the upload wrote. A file or an upload that nobody
// closes, and a store that is dropped, give their memory back when the garbage
// collector finds them; GOMEMLIMIT does not count the mappings.
func Mem(limit int64) *MemStore {
	m := &MemStore{
		files: map[string]*memFile{},
		dirs:  map[string]map[string]struct{}{".": {}},
	}
	m.budget.limit = memLimit(limit)
	return m
}

func memLimit(limit int64) int64 {
	if limit <= 0 {
		return DefaultMemLimit
	}
	return limit
}

// Open opens a file for reading. Its data is not copied. The File is a
// [TryReader] that never returns [ErrWouldBlock]. It may be closed while
// others read it: they get what they asked for, or [fs.ErrClosed].
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
	f.refs.Add(1)
	return &memReader{file: f}, nil
}

// Stat describes a file or a directory.
func (m *MemStore) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := check(ctx, name); err != nil {
		return nil, memFail("stat", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fi, ok := m.info(name)
	if !ok {
		return nil, memFail("stat", name, fs.ErrNotExist)
	}
	return fi, nil
}

// info describes what has the name. The caller holds mu.
func (m *MemStore) info(name string) (fi memInfo, ok bool) {
	if f, ok := m.files[name]; ok {
		return f.info, true
	}
	_, ok = m.dirs[name]
	return memInfo{name: path.Base(name), mode: fs.ModeDir | 0o755}, ok
}

// ReadDir lists a directory: see [Lister].
func (m *MemStore) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if err := check(ctx, name); err != nil {
		return nil, memFail("readdir", name, err)
	}
	entries, err := m.list(name)
	if err != nil {
		return nil, memFail("readdir", name, err)
	}
	sortEntries(entries)
	return entries, nil
}

func (m *MemStore) list(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, ok := m.dirs[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	if len(dir) > maxEntries {
		return nil, errManyEntries
	}
	entries := make([]fs.DirEntry, 0, len(dir))
	for base := range dir {
		fi, _ := m.info(path.Join(name, base))
		entries = append(entries, fs.FileInfoToDirEntry(fi))
	}
	return entries, nil
}

// Create begins an upload. Directories need not exist.
func (m *MemStore) Create(ctx context.Context, name string, c Create) (Upload, error) {
	if err := check(ctx, name); err != nil {
		return nil, memFail("create", name, err)
	}
	m.mu.Lock()
	_, err := m.target(name, c)
	m.mu.Unlock()
	if err != nil {
		return nil, memFail("create", name, err)
	}
	b, err := newBlock(&m.budget, c.Size)
	if err != nil {
		return nil, memFail("create", name, err)
	}
	publish := func(b *block) error { return m.publish(name, c, b) }
	return &memUpload{name: name, publish: publish, block: b}, nil
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

// publish makes a file of b and gives it its name.
func (m *MemStore) publish(name string, c Create, b *block) error {
	f := newMemFile(name, b, 0)
	old, err := m.put(name, c, f)
	if err != nil {
		f.drop()
		return err
	}
	if old != nil {
		old.drop()
	}
	return nil
}

// put gives f its name. It returns the file that had it, if any.
func (m *MemStore) put(name string, c Create, f *memFile) (old *memFile, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f.info.mode, err = m.target(name, c); err != nil {
		return nil, err
	}
	old = m.files[name]
	if old == nil {
		if err := m.enter(name); err != nil {
			return nil, err
		}
	}
	m.files[name] = f
	return old, nil
}

// enter makes name an entry of its directory, and that of its own, up to the
// root. The caller holds mu.
func (m *MemStore) enter(name string) error {
	var missing int64
	for dir := path.Dir(name); m.dirs[dir] == nil; dir = path.Dir(dir) {
		missing++
	}
	if err := m.budget.take(missing * memOverhead); err != nil {
		return err
	}
	for ; ; missing-- {
		dir, base := path.Dir(name), path.Base(name)
		if missing == 0 {
			m.dirs[dir][base] = struct{}{}
			return nil
		}
		m.dirs[dir] = map[string]struct{}{base: {}}
		name = dir
	}
}

func memFail(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
