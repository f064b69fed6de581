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
	// keptSize is the size up to which files are kept open, in bytes. The kernel sends
	// larger ones from the page cache, by the offset of the open file, which readers
	// cannot share.
	keptSize = 16 << 10

	// keptFor is how often files are closed that had no reader since the last time.
	keptFor = time.Second

	// keptAfter is how long a file must not have changed before it is kept. The kernel's
	// clock for changes ticks every 10 ms at most, and two within a tick look like one.
	keptAfter = 50 * time.Millisecond
)

// SmallFiles keeps files of up to 16 KiB open that were read, for one to two seconds, and
// lets the next readers share them: opening and closing such a file costs more than reading
// it. Several [Dir] may have the same SmallFiles. It has an effect on Linux only, and on ext4
// (ext2, ext3), XFS, Btrfs, tmpfs and ramfs: elsewhere, as on NFS, a content may be new only to
// those who open the file.
//
// Readers never get another content than by opening the file: each looks the name up again,
// and gets what is open only if that is the same inode, without a change of its content or
// attributes since. A file that is removed keeps its disk space while it is open, and its
// file system cannot be unmounted.
type SmallFiles struct {
	// Max is how many files may be open without a reader. It must not change once in use.
	Max int

	now func() time.Time // nil means time.Now; only tests set it

	mu   sync.Mutex
	kept map[store.Identity]*keptFile // mu
}

// A keptFile is a file open for several readers. SmallFiles is one of its users.
type keptFile struct {
	store.File
	users  int  // mu of SmallFiles
	lately bool // mu of SmallFiles: it had a new reader since the last sweep
}

// find returns a reader of a file that has the name, if it is open. info is what the name
// means now.
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

// add returns a reader of a file that was opened, and keeps the file if there is room and it
// may be shared. Otherwise it returns the file itself. before and info are what it was before
// and after it was opened.
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

// shareable returns the identity of a file that was opened, and whether a name with this
// identity means that opening it would succeed again, with the same content. A change while it
// was opened may have been of its permissions.
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

// sweep closes the files without a reader for some time.
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

// leave ends one use of the file, and closes it after the last. mu of SmallFiles is held.
func (f *keptFile) leave() error {
	if f.users--; f.users > 0 {
		return nil
	}
	return f.Close()
}

// A keptReader is a reader of a keptFile.
type keptReader struct {
	from   *SmallFiles
	file   *keptFile
	id     store.Identity
	info   fs.FileInfo
	at     *Dir
	name   string // by which it was opened
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

// Identity returns what the file was when this reader opened it, and so does Stat.
func (r *keptReader) Identity() (store.Identity, bool) { return r.id, true }

// Location returns the path by which this reader opened the file.
func (r *keptReader) Location() store.Location { return r.at.location(r.name) }

// Close ends the use of the file by this reader.
func (r *keptReader) Close() error {
	if !r.closed.CompareAndSwap(false, true) {
		return fs.ErrClosed
	}
	r.from.mu.Lock()
	defer r.from.mu.Unlock()
	return r.file.leave()
}
