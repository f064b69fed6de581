package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// A lab is a source of files that have versions. Its files can be changed, and it can fail.
type lab struct {
	mu     sync.Mutex
	files  map[string]version    // guarded by mu
	away   error                 // the error of all calls; nil while the source is reachable; guarded by mu
	opens  int                   // number of files opened; guarded by mu
	stats  int                   // number of calls of Stat; guarded by mu
	reads  map[int64]int         // number of reads, by the block of the first byte; guarded by mu
	before func(off int64) error // called before each read; guarded by mu
	closed int                   // number of files closed; guarded by mu
}

// A version is one content of a file.
type version struct {
	number int
	seed   uint64
	size   int64
}

func newLab() *lab { return &lab{files: map[string]version{}, reads: map[int64]int{}} }

var errAway = errors.New("the source is away")

// put replaces a file.
func (l *lab) put(name string, size int64) version {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := version{number: l.files[name].number + 1, size: size}
	for _, c := range name {
		v.seed = v.seed*31 + uint64(c)
	}
	v.seed += uint64(v.number) << 32
	l.files[name] = v
	return v
}

func (l *lab) remove(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.files, name)
}

// set changes the lab's behavior.
func (l *lab) set(f func(l *lab)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

// count returns a number that f reads from the lab.
func count[T any](l *lab, f func(l *lab) T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return f(l)
}

// fill writes the bytes of a version at off.
func (v version) fill(p []byte, off int64) { copy(p, v.bytes(off, len(p))) }

// bytes returns a part of a version. Its memory is not shared yet, and race detection for each byte
// would take most of the time of these tests.
//
//go:norace
func (v version) bytes(off int64, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		at := uint64(off) + uint64(i)
		p[i] = byte((at>>3^v.seed)*0x9e3779b97f4a7c15>>56) + byte(at)
	}
	return p
}

func (l *lab) find(op, name string) (version, error) {
	if l.away != nil {
		return version{}, l.away
	}
	v, ok := l.files[name]
	if !ok {
		return v, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return v, nil
}

func (l *lab) Open(_ context.Context, name string) (store.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opens++
	v, err := l.find("open", name)
	if err != nil {
		return nil, err
	}
	return &labFile{l: l, name: name, v: v}, nil
}

func (l *lab) Stat(_ context.Context, name string) (fs.FileInfo, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats++
	v, err := l.find("stat", name)
	if err != nil {
		return nil, err
	}
	return labInfo{name, v}, nil
}

func (l *lab) Create(context.Context, string, store.Create) (store.Upload, error) {
	return nil, fs.ErrPermission
}

type labFile struct {
	l    *lab
	name string
	v    version
}

func (f *labFile) Version() string            { return strconv.Itoa(f.v.number) }
func (f *labFile) Stat() (fs.FileInfo, error) { return labInfo{f.name, f.v}, nil }

func (f *labFile) Close() error {
	f.l.set(func(l *lab) { l.closed++ })
	return nil
}

func (f *labFile) ReadAt(p []byte, off int64) (int, error) {
	l := f.l
	l.mu.Lock()
	before, away, now := l.before, l.away, l.files[f.name]
	if off%blockSize == 0 {
		l.reads[off/blockSize]++
	}
	l.mu.Unlock()
	if before != nil {
		if err := before(off); err != nil {
			return 0, err
		}
	}
	switch {
	case away != nil:
		return 0, away
	case now != f.v:
		return 0, store.ErrChanged
	case off >= f.v.size:
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), f.v.size-off))
	f.v.fill(p[:n], off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

type labInfo struct {
	name string
	v    version
}

func (i labInfo) Name() string       { return i.name }
func (i labInfo) Size() int64        { return i.v.size }
func (i labInfo) Mode() fs.FileMode  { return 0o644 }
func (i labInfo) ModTime() time.Time { return time.Unix(int64(i.v.number), 0) }
func (i labInfo) IsDir() bool        { return false }
func (i labInfo) Sys() any           { return nil }
func (i labInfo) Version() string    { return strconv.Itoa(i.v.number) }

// openFile opens a file, which is closed when the test ends.
func openFile(t testing.TB, s store.Store, name string) store.File {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// wantBytes reads a part of a file and compares it with the same part of a version.
func wantBytes(t testing.TB, f io.ReaderAt, v version, off int64, n int) {
	t.Helper()
	p := make([]byte, n)
	if got, err := f.ReadAt(p, off); got != n || err != nil && err != io.EOF {
		t.Errorf("ReadAt(%d bytes, %d) = %d, %v", n, off, got, err)
	} else if !bytes.Equal(p, v.bytes(off, n)) {
		t.Errorf("the %d bytes at %d are not those of version %d", n, off, v.number)
	}
}

// wantFile opens a file, reads all of it, and compares it with v.
func wantFile(t testing.TB, s store.Store, name string, v version) {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	if err != nil {
		t.Errorf("Open(%s): %v", name, err)
		return
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Size() != v.size {
		t.Errorf("Stat of %s = %v, %v, want %d bytes", name, fi, err, v.size)
		return
	}
	wantBytes(t, f, v, 0, int(v.size))
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// A faulty tree is a directory whose calls fail when a test wants that.
type faulty struct {
	store.Tree
	mu    sync.Mutex
	write error      // error that Create returns; guarded by mu
	read  error      // error that reading a file returns; guarded by mu
	least int64      // size of the smallest file that does not fit; guarded by mu
	rand  *rand.Rand // if set, errors occur only sometimes; guarded by mu
}

func (f *faulty) set(write, read error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write, f.read = write, read
}

func (f *faulty) now(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rand != nil && f.rand.IntN(8) > 0 {
		return nil
	}
	return err
}

func (f *faulty) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	f.mu.Lock()
	err := f.write
	if c.Size < f.least {
		err = nil
	}
	f.mu.Unlock()
	if err = f.now(err); err != nil {
		return nil, err
	}
	return f.Tree.Create(ctx, name, c)
}

func (f *faulty) Open(ctx context.Context, name string) (store.File, error) {
	file, err := f.Tree.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	try, ok := file.(store.TryReader)
	if !ok {
		return &faultyFile{file, f}, nil
	}
	return struct {
		*faultyFile
		store.TryReader
	}{&faultyFile{file, f}, try}, nil
}

type faultyFile struct {
	store.File
	f *faulty
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	f.f.mu.Lock()
	err := f.f.read
	f.f.mu.Unlock()
	if err = f.f.now(err); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// makeFaulty adds faults to the directory of a cache.
func makeFaulty(c *Cache) *faulty {
	f := &faulty{Tree: c.disk.files}
	c.disk.files = f
	return f
}
