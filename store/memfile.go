package store

import (
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"
)

// A memStore is a [Tree] in memory. See [Mem].
type memStore struct {
	budget budget

	mu   sync.Mutex
	root *memNode // guarded by mu, like all nodes below it
}

// A memNode is a file, a directory or a symbolic link.
type memNode struct {
	number   uint64       // unique among the nodes of all stores in the process; never 0
	mode     fs.FileMode  // type and permission bits
	modified atomic.Int64 // in Unix nanoseconds; atomic because writers of a file do not hold mu
	accessed time.Time    // zero unless it was set by SetAttr
	names    int          // how many names the node has

	file    *memFile            // content of the file, to which the node holds one reference; nil for other nodes
	target  string              // text of the symbolic link; "" for other nodes
	entries map[string]*memNode // entries of the directory, by name; nil for other nodes
	parent  *memNode            // directory that contains this directory; nil for the root and for other nodes
}

// memNodes counts the nodes made so far.
var memNodes atomic.Uint64

func newMemNode(mode fs.FileMode) *memNode {
	n := &memNode{number: memNodes.Add(1), mode: mode}
	if mode.IsDir() {
		n.entries = map[string]*memNode{}
	}
	n.touch()
	return n
}

func (n *memNode) touch() { n.modified.Store(time.Now().UnixNano()) }

// info describes n by the given name. The caller holds the store's mu.
func (n *memNode) info(name string) memInfo {
	i := memInfo{name: path.Base(name), number: n.number, mode: n.mode, modTime: time.Unix(0, n.modified.Load())}
	switch {
	case n.file != nil:
		i.size = n.file.size()
	case n.target != "":
		i.size = int64(len(n.target))
	}
	i.details = &Details{Links: uint64(max(n.names, 1)), AccessTime: n.accessed}
	if n.accessed.IsZero() {
		i.details.AccessTime = i.modTime
	}
	return i
}

func memFail(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// A memFile is the content of a file in memory. It is either finished, and never changes again, or
// live: then handles write to it, and every access needs mu.
type memFile struct {
	// refs is the number of references: the node holds one, and so do each open reader or writer
	// and each frozenFile.
	refs atomic.Int64
	// live says that handles may write to the file. It may change only while nobody has the file
	// open; guarded by the store's mu.
	live  bool
	mu    sync.RWMutex // guards block while live is set
	block *block
}

// newMemFile returns a file with the data of block, and with one reference, the caller's.
func newMemFile(b *block) *memFile {
	b.fit()
	f := &memFile{block: b}
	f.refs.Store(1)
	return f
}

// drop releases a reference. When it releases the last one, it frees the memory. That takes some
// milliseconds per gigabyte, so the caller must not hold a lock that others wait for. Dropping nil
// does nothing.
func (f *memFile) drop() {
	if f != nil && f.refs.Add(-1) == 0 {
		f.block.free()
	}
}

// size returns the length of the content. Call it only while f.live cannot change.
func (f *memFile) size() int64 {
	if f.live {
		f.mu.RLock()
		defer f.mu.RUnlock()
	}
	return int64(len(f.block.data))
}

// write stores p in a live file at off or, with atEnd, after the last byte.
func (f *memFile) write(p []byte, off int64, atEnd bool) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if atEnd {
		off = int64(len(f.block.data))
	}
	if err := f.block.extend(off + int64(len(p))); err != nil {
		return 0, err
	}
	return copy(f.block.data[off:], p), nil
}

// truncate sets the size of a live file.
func (f *memFile) truncate(size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.block.extend(size); err != nil {
		return err
	}
	f.block.cut(size)
	return nil
}

// fit frees the capacity that a live file does not need at the moment.
func (f *memFile) fit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.block.fit()
}

// A memReader is a file of a memStore or a Sink that is open for reading.
type memReader struct {
	file *memFile // the reader holds a reference to it until it is closed and its reads have returned
	node *memNode // the file's node; nil in a Sink
	info memInfo  // description of the file when it was opened
	live bool     // copy of file.live, which cannot change while the file is open

	// state is twice the number of reads that are running, plus 1 once the reader is closed. Close
	// does not wait for reads; whichever of them finishes last drops the file.
	state atomic.Int64
}

var _ TryReader = (*memReader)(nil)

// begin prevents the memory from being freed until end is called. It returns false if r is closed.
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

// lock prevents the data of a live file from being changed or moved until unlock is called.
func (r *memReader) lock() {
	if r.live {
		r.file.mu.RLock()
	}
}

func (r *memReader) unlock() {
	if r.live {
		r.file.mu.RUnlock()
	}
}

func (r *memReader) Stat() (fs.FileInfo, error) {
	if !r.live {
		return r.info, nil
	}
	if !r.begin() {
		return nil, r.fail("stat", fs.ErrClosed)
	}
	defer r.end()
	i := r.info
	i.size, i.modTime = r.file.size(), time.Unix(0, r.node.modified.Load())
	return i, nil
}

func (r *memReader) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, r.fail("read", fs.ErrInvalid)
	}
	if !r.begin() {
		return 0, r.fail("read", fs.ErrClosed)
	}
	r.lock()
	n = copy(p, r.from(off))
	r.unlock()
	r.end()
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// TryReadAt never returns ErrWouldBlock. It may wait for a write to the same file in memory.
func (r *memReader) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, r.fail("read", fs.ErrInvalid)
	}
	if !r.begin() {
		return 0, r.fail("read", fs.ErrClosed)
	}
	r.lock()
	data := r.from(off)
	want, n := 0, 0
	for _, b := range bufs {
		want += len(b)
		n += copy(b, data[n:])
	}
	r.unlock()
	r.end()
	if n == 0 && want > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// from returns the data from off to the end of the file. The slice is valid only between lock and
// unlock.
func (r *memReader) from(off int64) []byte {
	data := r.file.block.data
	return data[min(off, int64(len(data))):]
}

// Close releases the reader's reference. The memory is freed when the file has also been replaced
// or removed.
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

func (r *memReader) fail(op string, err error) error { return memFail(op, r.info.name, err) }

// A memInfo describes a file, directory or link in memory, as an fs.FileInfo.
type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
	number  uint64   // number of the node; 0 for a file that has no node
	details *Details // nil if there are no details
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modTime }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }

// Sys returns a [Details], or nil if there are no details.
func (i memInfo) Sys() any {
	if i.details == nil {
		return nil
	}
	return *i.details
}

// SameFile reports whether a and b describe the same file, directory or link, possibly under
// different names. It is like [os.SameFile], but also works for files of [Mem]. For
// descriptions by stores other than [Mem] and a directory of the operating system, it reports false.
func SameFile(a, b fs.FileInfo) bool {
	if m, ok := a.(memInfo); ok {
		n, ok := b.(memInfo)
		return ok && m.number == n.number && m.number != 0
	}
	return os.SameFile(a, b)
}
