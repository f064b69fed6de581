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
	// keptSize is the size, in bytes, up to which files are kept open. The kernel sends larger ones
	// from the page cache, at the offset of the open file, which readers cannot share.
	keptSize = 16 << 10

	// keptFor is the interval at which files are closed that had no reader since the last time.
	keptFor = time.Second

	// keptAfter is how long ago a file must have changed before it is kept. The kernel's clock for
	// changes ticks every 10 ms or faster, and two changes within a tick look like one.
	keptAfter = 50 * time.Millisecond
)

// SmallFiles keeps files of up to 16 KiB open for one to two seconds after they were read, and lets
// the next readers share them: opening and closing such a file costs more than reading it. A reader
// then takes 4 system calls and not 11. Several [Dir] may share one SmallFiles. It has an effect on
// Linux only, and on ext4 (ext2, ext3), XFS, Btrfs, tmpfs and ramfs. On others, such as NFS, only
// opening a file may show its new content.
//
// Readers always get the content that opening the file would give: each looks the name up again,
// and shares an open file only if the inode is the same, and neither its content nor its attributes
// have changed since. A file that is removed keeps its disk space while it is open, and its file
// system cannot be unmounted.
type SmallFiles struct {
	// Max is the most files that may be open without a reader. It must not change once in use.
	Max int

	now func() time.Time // nil means time.Now; only tests set it

	mu   sync.Mutex
	kept map[store.Identity]*keptFile // mu
}

// A keptFile is an open file with several readers. SmallFiles counts as one of its users.
type keptFile struct {
	store.File
	users  int  // guarded by SmallFiles.mu
	lately bool // guarded by SmallFiles.mu: it had a new reader since the last sweep
}

// find returns a reader of the file of that name, if it is open. info describes the name now.
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

// add returns a reader of a file that was opened, and keeps the file if there is room and it may be
// shared. Otherwise it returns the file itself. before and info describe the file before and after
// it was opened.
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

// shareable returns the identity of a file that was opened. It reports true if, whenever a name has
// this identity, opening it would succeed and give the same content. If the file changed while it
// was opened, the change may have been one of its permissions.
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

// sweep closes files that had no reader for some time.
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

// leave removes one user of the file, and closes it after the last. The caller holds SmallFiles.mu.
func (f *keptFile) leave() error {
	if f.users--; f.users > 0 {
		return nil
	}
	return f.Close()
}

// A keptReader is the file that one caller of Open gets. All readers of a keptFile share its descriptor;
// Close ends the use by one reader.
type keptReader struct {
	from   *SmallFiles
	file   *keptFile
	id     store.Identity
	info   fs.FileInfo
	at     *Dir
	name   string // by which the file was opened
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

// Identity returns the identity of the file when this reader opened it. Stat describes it at that
// time too.
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
