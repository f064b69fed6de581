package store

import (
	"io"
	"io/fs"
	"path"
	"sync/atomic"
	"time"
)

// A memFile is a finished file in memory. Its data never changes.
type memFile struct {
	info  memInfo
	block *block
	refs  atomic.Int64 // its name, if it has one, and its readers
}

// newMemFile returns the file that block holds, with one reference.
func newMemFile(name string, b *block, perm fs.FileMode) *memFile {
	b.fit()
	f := &memFile{block: b, info: memInfo{
		name: path.Base(name), size: int64(len(b.data)), mode: perm, modTime: time.Now(),
	}}
	f.refs.Store(1)
	return f
}

// drop takes a reference. The last gives the memory back, which takes some
// milliseconds a gigabyte: hold no lock that others wait for.
func (f *memFile) drop() {
	if f.refs.Add(-1) == 0 {
		f.block.free()
	}
}

// A memReader is an open file.
type memReader struct {
	file *memFile // a reference, until the reader is closed and idle

	// state counts reads under way, times two; the lowest bit says closed.
	// Close need not wait for them, nor they for it: the last of all drops
	// the file.
	state atomic.Int64
}

var _ TryReader = (*memReader)(nil)

// begin lets the memory stay until end. It reports false if r is closed.
func (r *memReader) begin() bool {
	for {
		s := r.state.Load()
		if s&1 != 0 {
			return false
		}
		if r.state.CompareAndSwap(s, s+2) {
			return true
		}
	}
}

func (r *memReader) end() {
	if r.state.Add(-2) == 1 {
		r.file.drop()
	}
}

func (r *memReader) Stat() (fs.FileInfo, error) { return r.file.info, nil }

func (r *memReader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, r.fail("read", fs.ErrInvalid)
	}
	if !r.begin() {
		return 0, r.fail("read", fs.ErrClosed)
	}
	n = copy(p, r.from(off))
	r.end()
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// TryReadAt never has to wait.
func (r *memReader) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, r.fail("read", fs.ErrInvalid)
	}
	if !r.begin() {
		return 0, r.fail("read", fs.ErrClosed)
	}
	data := r.from(off)
	want, n := 0, 0
	for _, b := range bufs {
		want += len(b)
		n += copy(b, data[n:])
	}
	r.end()
	if n == 0 && want > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// from returns the data from off on. It is the caller's between begin and end.
func (r *memReader) from(off int64) []byte {
	data := r.file.block.data
	return data[min(off, int64(len(data))):]
}

// Close lets the file's bytes go, once it has also been replaced.
func (r *memReader) Close() error {
	s := r.state.Or(1)
	if s&1 != 0 {
		return r.fail("close", fs.ErrClosed)
	}
	if s == 0 {
		r.file.drop()
	}
	return nil
}

func (r *memReader) fail(op string, err error) error { return memFail(op, r.file.info.name, err) }

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
