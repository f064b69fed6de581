package localdir

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	// keptSize is the size, in bytes, up to which files are kept open. Larger files are sent with
	// sendfile, which uses the offset of the open file, so readers cannot share it.
	keptSize = 16 << 10

	// keptFor is the interval at which sweep runs. Each sweep stops keeping the files that had no
	// new reader since the previous sweep.
	keptFor = time.Second

	// keptAfter is how long ago the last change of a file must be before the file is kept. The
	// kernel's clock for these times ticks every 10 ms or faster, and two changes within a tick
	// cannot be distinguished.
	keptAfter = 50 * time.Millisecond
)

// SmallFiles keeps files of up to 16 KiB open for one to two seconds after they were read, and lets
// the next readers share them, because opening and closing such a file costs more than reading it:
// sharing takes 4 system calls instead of 11. Several [Dir] may share one SmallFiles. It has an
// effect on Linux only, and only on ext4 (ext2, ext3), XFS, Btrfs, tmpfs and ramfs. On other file
// systems, such as NFS, an open file may miss new content that opening it again would show.
//
// Readers always get the same content as if they opened the file: each reader looks the name up
// again, and shares an open file only if the name has the same inode, and neither content nor
// attributes have changed. While a removed file is open, it still uses disk space, and its file
// system cannot be unmounted.
type SmallFiles struct {
	// Max is the largest number of files that are kept open. Do not change it once SmallFiles is in
	// use.
	Max int

	now func() time.Time // time.Now if nil; only tests set it

	mu   sync.Mutex
	kept map[store.Identity]*keptFile // the files that are kept open; guarded by mu
}

// A keptFile is an open file that several readers share. While SmallFiles keeps the file, it counts
// as a user too.
type keptFile struct {
	store.File
	users  int  // how many readers use the file, plus one while SmallFiles keeps it; guarded by SmallFiles.mu
	lately bool // the file has had a new reader since the last sweep; guarded by SmallFiles.mu
}

// find returns a reader of the file of that name, if SmallFiles keeps this file open. info
// describes the file that has the name now.
func (s *SmallFiles) find(d *Dir, name string, info fs.FileInfo) (store.File, bool) {
	if s == nil || info.Size() > keptSize {
		return nil, false
	}
	id, ok := IdentityOf(info)
	if !ok {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.kept[id]
	if f == nil {
		return nil, false
	}
	f.users++
	f.lately = true
	return &keptReader{from: s, file: f, id: id, info: info, at: d, name: name}, true
}

// add returns a reader of the file f, which the caller has opened. It keeps f for further readers
// if f may be shared and there is room; otherwise it returns f itself. `before` and `info` describe
// the file before and after it was opened.
func (s *SmallFiles) add(f store.File, d *Dir, name string, before, info fs.FileInfo) store.File {
	if s == nil || info.Size() > keptSize {
		return f
	}
	id, ok := s.shareable(f, before, info)
	if !ok {
		return f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= s.Max || s.kept[id] != nil {
		return f
	}
	if len(s.kept) == 0 {
		s.kept = map[store.Identity]*keptFile{}
		time.AfterFunc(keptFor, s.sweep)
	}
	s.kept[id] = &keptFile{File: f, users: 2, lately: true}
	return &keptReader{from: s, file: s.kept[id], id: id, info: info, at: d, name: name}
}

// shareable returns the identity of the opened file f. It returns true if f may be shared: whenever
// a name has this identity, opening that name would succeed and show the same content. It returns
// false if the identity changed between `before` and `info`, the descriptions before and after the
// file was opened, as the permissions may have changed.
func (s *SmallFiles) shareable(f store.File, before, info fs.FileInfo) (store.Identity, bool) {
	id, ok := IdentityOf(info)
	if was, _ := IdentityOf(before); !ok || id != was {
		return id, false
	}
	now := time.Now
	if s.now != nil {
		now = s.now
	}
	if now().Sub(id.Changed()) < keptAfter {
		return id, false
	}
	file, ok := f.(*dirFile)
	return id, ok && isLocal(file.File)
}

// sweep stops keeping the files that had no new reader since the last sweep. Such a file is closed
// as soon as it has no reader.
func (s *SmallFiles) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.kept {
		if f.lately {
			f.lately = false
			continue
		}
		delete(s.kept, id)
		_ = f.leave()
	}
	if len(s.kept) > 0 {
		time.AfterFunc(keptFor, s.sweep)
	}
}

// leave removes one user of the file, and closes the file when that was the last. The caller holds
// SmallFiles.mu.
func (f *keptFile) leave() error {
	if f.users--; f.users > 0 {
		return nil
	}
	return f.Close()
}

// A keptReader is the store.File that a call of Open returns for a file that may be shared. All
// readers of a keptFile share its descriptor; Close ends only this reader's use of it.
type keptReader struct {
	from   *SmallFiles
	file   *keptFile
	id     store.Identity
	info   fs.FileInfo
	at     *Dir
	name   string // the name by which this reader opened the file
	closed atomic.Bool
}

var (
	_ store.TryReader  = (*keptReader)(nil)
	_ store.Identifier = (*keptReader)(nil)
	_ store.Located    = (*keptReader)(nil)
)

func (r *keptReader) ReadAt(b []byte, off int64) (int, error) {
	if r.closed.Load() {
		return 0, fs.ErrClosed
	}
	return r.file.ReadAt(b, off)
}

func (r *keptReader) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if r.closed.Load() {
		return 0, fs.ErrClosed
	}
	if try, ok := store.As[store.TryReader](r.file.File); ok {
		return try.TryReadAt(bufs, off)
	}
	return 0, errors.ErrUnsupported
}

func (r *keptReader) Stat() (fs.FileInfo, error) {
	if r.closed.Load() {
		return nil, fs.ErrClosed
	}
	return r.info, nil
}

// Identity returns the identity that the file had when this reader opened it. Stat describes the
// file at that time too.
func (r *keptReader) Identity() (store.Identity, bool) { return r.id, true }

// Location returns the path by which this reader opened the file.
func (r *keptReader) Location() store.Location { return r.at.location(r.name) }

// Close ends this reader's use of the file.
func (r *keptReader) Close() error {
	if !r.closed.CompareAndSwap(false, true) {
		return fs.ErrClosed
	}
	r.from.mu.Lock()
	defer r.from.mu.Unlock()
	return r.file.leave()
}
