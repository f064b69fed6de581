package store

import (
	"context"
	"io/fs"
	"math"
	"strings"
	"sync"

	"github.com/haul-project/haul/store/internal/rules"
)

// defaultMemLimit is the limit, in bytes, of a [Mem] or [Sink] that is created with a limit of 0 or
// less.
const defaultMemLimit = 64 << 20

// memEntry is the number of bytes charged for each name in an open directory.
const memEntry = 16

var _ Tree = (*memStore)(nil)

// Mem returns an empty store in memory that holds at most limit bytes; 0 or less means 64 MiB.
// Beyond the limit, uploads fail with [ErrNoSpace]. Each file is charged its size and 512 bytes;
// the charge ends when the file has been replaced or removed and its last reader has closed it. An
// upload is also charged for the memory that it reserves beyond its data: at most 64 KiB, or as
// much again as its data if that is more.
//
// It is a [Tree] whose files and directories have no owner. Directories are made by Mkdir, or when
// the name of an upload implies them. Each directory, each further name of a file and each symbolic
// link is charged 512 bytes, a link also the length of its text. An open [Entries] is charged 16
// bytes for each name in it.
//
// If others are reading a file, OpenFile for writing copies it, and the readers keep the content
// that they opened. From then on, readers and writers of the new copy wait for each other, and
// while the file grows it may be charged twice its length.
//
// On Linux, files of 256 KiB and more are not on the garbage-collected heap, but in mappings, which
// can grow without a copy. They are charged in whole pages. ErrNoSpace is also returned if the
// kernel refuses memory. Commit copies nothing: readers read the memory that the upload wrote. If a
// file or an upload is never closed, or a store is dropped, the garbage collector frees the memory.
// GOMEMLIMIT does not count the mappings.
func Mem(limit int64) Tree {
	m := &memStore{root: newMemNode(fs.ModeDir | 0o755)}
	m.budget.limit = memLimit(limit)
	return m
}

func memLimit(limit int64) int64 {
	if limit <= 0 {
		return defaultMemLimit
	}
	return limit
}

// Open opens a file for reading. Its data is not copied. The File is a [TryReader] that never
// returns [ErrWouldBlock]. It may be closed during reads by other goroutines: these return data, or
// [fs.ErrClosed].
func (m *memStore) Open(ctx context.Context, name string) (File, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return nil, memFail("open", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.root.regular(name)
	if err != nil {
		return nil, memFail("open", name, err)
	}
	n.file.refs.Add(1)
	return &memReader{file: n.file, node: n, info: n.info(name), live: n.file.live}, nil
}

// Stat describes a file or a directory.
func (m *memStore) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return m.stat(ctx, "stat", name, true)
}

func (m *memStore) stat(ctx context.Context, op, name string, follow bool) (fs.FileInfo, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return nil, memFail(op, name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.root.find(name, follow)
	if err != nil {
		return nil, memFail(op, name, err)
	}
	return n.info(name), nil
}

// ReadDir lists a directory: see [Tree].
func (m *memStore) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return nil, memFail("readdir", name, err)
	}
	entries, err := m.list(name)
	if err != nil {
		return nil, memFail("readdir", name, err)
	}
	rules.SortEntries(entries)
	return entries, nil
}

func (m *memStore) list(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.root.directory(name)
	if err != nil {
		return nil, err
	}
	if len(dir.entries) > rules.MaxEntries {
		return nil, rules.ErrManyEntries
	}
	entries := make([]fs.DirEntry, 0, len(dir.entries))
	for base, n := range dir.entries {
		entries = append(entries, fs.FileInfoToDirEntry(n.info(base)))
	}
	return entries, nil
}

// Create begins an upload. Missing directories are made.
func (m *memStore) Create(ctx context.Context, name string, c Create) (Upload, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return nil, memFail("create", name, err)
	}
	m.mu.Lock()
	_, _, err := m.place(name, c)
	m.mu.Unlock()
	if err != nil {
		return nil, memFail("create", name, err)
	}
	b, err := newUploadBlock(&m.budget, c.Size)
	if err != nil {
		return nil, memFail("create", name, err)
	}
	publish := func(b *block) error { return m.publish(name, c, b) }
	return &memUpload{name: name, publish: publish, block: b}, nil
}

// place returns the position in the tree for a new file of that name, and the file's permission
// bits. It returns an error if the file may not have that name. The caller holds mu.
func (m *memStore) place(name string, c Create) (memPlace, fs.FileMode, error) {
	p, err := m.root.walk(name, !c.Exclusive)
	switch {
	case err != nil:
		return p, 0, err
	case p.node == nil && !ValidName(p.base): // the text of a symbolic link led to an invalid name
		return p, 0, fs.ErrNotExist
	case p.node == nil:
		return p, rules.FilePerm(c.Perm), nil
	case c.Exclusive:
		return p, 0, fs.ErrExist
	case !p.node.mode.IsRegular():
		return p, 0, ErrNotRegular
	}
	return p, p.node.mode, nil
}

// publish makes a file with the content b, and gives it the name.
func (m *memStore) publish(name string, c Create, b *block) error {
	f := newMemFile(b)
	old, err := m.put(name, c, f)
	if err != nil {
		f.drop()
		return err
	}
	old.drop()
	return nil
}

// put gives f its name. It returns the content that had the name before, or nil; the caller must
// drop it.
func (m *memStore) put(name string, c Create, f *memFile) (old *memFile, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, perm, err := m.place(name, c)
	if err != nil {
		return nil, err
	}
	n := newMemNode(perm)
	n.file = f
	if p.node != nil {
		old = m.forget(p.node)
	}
	return old, m.enter(p, n)
}

// enter adds n to its directory, and makes the missing directories above it. The caller holds mu.
func (m *memStore) enter(p memPlace, n *memNode) error {
	missing := int64(strings.Count(p.base, "/"))
	if err := m.budget.take(missing * memOverhead); err != nil {
		return err
	}
	dir, base := p.dir, p.base
	for {
		elem, rest, more := strings.Cut(base, "/")
		dir.touch()
		if !more {
			dir.entries[elem] = n
			n.names++
			if n.mode.IsDir() {
				n.parent = dir
			}
			return nil
		}
		sub := newMemNode(fs.ModeDir | 0o755)
		sub.names, sub.parent = 1, dir
		dir.entries[elem] = sub
		dir, base = sub, rest
	}
}

// forget is called when an entry of n is about to be replaced or deleted, and counts one name less.
// If that was the last name, it returns the content, which the caller must drop after it has
// released mu; otherwise it returns nil.
func (m *memStore) forget(n *memNode) *memFile {
	n.names--
	switch {
	case n.names > 0:
		m.budget.give(memOverhead)
	case n.file != nil:
		return n.file
	default:
		m.budget.give(memOverhead + int64(len(n.target)))
	}
	return nil
}

// A memUpload collects the data of an upload in a block of memory.
type memUpload struct {
	name string

	// publish takes ownership of the finished block, and frees the block if publish fails. No lock
	// is held while it runs.
	publish func(*block) error

	mu    sync.Mutex
	block *block // the data so far; nil once the upload is committed or closed; guarded by mu
}

func (u *memUpload) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, memFail("write", u.name, fs.ErrInvalid)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.block == nil {
		return 0, memFail("write", u.name, fs.ErrClosed)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if err := u.block.extend(off + int64(len(p))); err != nil {
		return 0, memFail("write", u.name, err)
	}
	return copy(u.block.data[off:], p), nil
}

func (u *memUpload) Truncate(size int64) error {
	if size < 0 {
		return memFail("truncate", u.name, fs.ErrInvalid)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.block == nil {
		return memFail("truncate", u.name, fs.ErrClosed)
	}
	if err := u.block.extend(size); err != nil {
		return memFail("truncate", u.name, err)
	}
	u.block.cut(size)
	return nil
}

func (u *memUpload) Commit() error {
	b := u.end()
	if b == nil {
		return memFail("commit", u.name, fs.ErrClosed)
	}
	if err := u.publish(b); err != nil {
		return memFail("commit", u.name, err)
	}
	return nil
}

func (u *memUpload) Close() error {
	if b := u.end(); b != nil {
		b.free()
	}
	return nil
}

// end marks the upload as ended and returns its block. It returns nil if the upload had already
// ended.
func (u *memUpload) end() *block {
	u.mu.Lock()
	defer u.mu.Unlock()
	b := u.block
	u.block = nil
	return b
}
