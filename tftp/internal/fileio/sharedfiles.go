package fileio

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/haul-project/haul/store"
)

// ErrManyFiles says that a [SharedFiles] has as many files open as its Max allows.
var ErrManyFiles = errors.New("too many different files are open")

// SharedFiles lets all readers of the same content use one open file, so that a thousand readers of
// one file take one descriptor. The zero value is ready for use. Any goroutine may call its
// methods.
type SharedFiles struct {
	// Max is how many files may be open at once, including the files that Acquire counts. 0 or less
	// means any number. It must not change after the first use.
	Max int

	mu    sync.Mutex
	files map[store.Identity]*sharedFile // the open files that further readers may share; guarded by mu
	open  int                            // number of open files, including those that Acquire counts; guarded by mu
}

// A sharedFile is an open file with all its readers.
type sharedFile struct {
	store.File
	try     store.TryReader // File as a TryReader; nil if File is not one
	id      store.Identity
	known   bool // the file has an Identity
	readers int  // number of readers that have not closed the file; guarded by SharedFiles.mu
}

// Share returns a File to use in place of f, and takes ownership of f. If a file with the same
// [store.Identity] is already open, Share closes f, and the result reads the open file. A file that
// is replaced, or changed in place, has another Identity. A file that is not a [store.Identifier]
// is not shared.
//
// The result is an Identifier and a [store.Located], and also a [store.TryReader] if f is one. It
// has no further methods, because Seek, for example, would change the offset of all readers. If f
// would exceed Max, Share closes it and returns ErrManyFiles.
func (s *SharedFiles) Share(f store.File) (store.File, error) {
	r := &sharedTryReader{sharedReader{from: s, own: sharedFile{File: f, readers: 1}}}
	fresh := &r.own // so that the reader and its file are a single allocation
	fresh.try, _ = store.As[store.TryReader](f)
	if i, ok := store.As[store.Identifier](f); ok {
		fresh.id, fresh.known = i.Identity()
	}
	r.location = store.LocationOf(f)
	shared, err := s.enter(fresh)
	if shared != fresh {
		fresh.File, fresh.try = nil, nil
		_ = f.Close() // nothing was read from f, so an error does not matter
	}
	if err != nil {
		return nil, err
	}
	if r.file = shared; shared.try == nil {
		return &r.sharedReader, nil
	}
	return r, nil
}

// enter returns the open file with the identity of fresh, and counts a reader for it. If no such
// file is open, it counts fresh as open and returns it.
func (s *SharedFiles) enter(fresh *sharedFile) (*sharedFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fresh.known {
		if shared := s.files[fresh.id]; shared != nil {
			shared.readers++
			return shared, nil
		}
	}
	if err := s.acquire(); err != nil {
		return nil, err
	}
	if fresh.known {
		if s.files == nil {
			s.files = make(map[store.Identity]*sharedFile)
		}
		s.files[fresh.id] = fresh
	}
	return fresh, nil
}

// leave removes a reader, and closes the file when it has no reader left.
func (s *SharedFiles) leave(shared *sharedFile) error {
	s.mu.Lock()
	shared.readers--
	last := shared.readers == 0
	if last && shared.known {
		delete(s.files, shared.id)
	}
	s.mu.Unlock()
	if !last {
		return nil
	}
	defer s.Release() // after Close has freed the descriptor, even if it panics
	return shared.Close()
}

// Acquire counts an open file that is not shared, such as an upload. It returns ErrManyFiles if
// that would exceed Max. Call Release once the file is closed.
func (s *SharedFiles) Acquire() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acquire()
}

func (s *SharedFiles) acquire() error {
	if s.Max > 0 && s.open >= s.Max {
		return ErrManyFiles
	}
	s.open++
	return nil
}

// Release records that a file which Acquire has counted is closed.
func (s *SharedFiles) Release() {
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
}

// Open returns how many files are open. Each file counts once, however many readers it has.
func (s *SharedFiles) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Full reports whether opening one more file would return ErrManyFiles.
func (s *SharedFiles) Full() bool { return s.Max > 0 && s.Open() >= s.Max }

// A sharedReader lets one reader use a sharedFile.
type sharedReader struct {
	from   *SharedFiles
	file   *sharedFile
	own    sharedFile // the sharedFile to which file points, if this reader was its first
	closed atomic.Bool

	location store.Location // location of the file that this reader opened
}

func (r *sharedReader) ReadAt(p []byte, off int64) (int, error) {
	if r.closed.Load() {
		return 0, fs.ErrClosed
	}
	return r.file.ReadAt(p, off)
}

func (r *sharedReader) Stat() (fs.FileInfo, error) {
	if r.closed.Load() {
		return nil, fs.ErrClosed
	}
	return r.file.Stat()
}

// Close ends this reader's use of the file. The last reader closes the file.
func (r *sharedReader) Close() error {
	if !r.closed.CompareAndSwap(false, true) {
		return fs.ErrClosed
	}
	return r.from.leave(r.file)
}

// Identity returns the identity that the file had when it was shared.
func (r *sharedReader) Identity() (store.Identity, bool) { return r.file.id, r.file.known }

// A sharedTryReader is a sharedReader of a TryReader.
type sharedTryReader struct{ sharedReader }

func (r *sharedTryReader) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if r.closed.Load() {
		return 0, fs.ErrClosed
	}
	return r.file.try.TryReadAt(bufs, off)
}

// Location returns the path by which this reader opened the file. Other readers may share it under
// another path.
func (r *sharedReader) Location() store.Location { return r.location }
