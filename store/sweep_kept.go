package store

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/internal/tempname"
)

// maxLockTries and lockEvery are how long a resumed upload waits for a sweep, which
// holds the lock of its file for a moment.
const (
	maxLockTries = 10
	lockEvery    = 20 * time.Millisecond
)

// lockSoon locks the hidden file, with a little patience.
func (k *keptUpload) lockSoon() (locked bool, err error) {
	for range maxLockTries {
		if err := k.store.hook("lock"); err != nil {
			return false, err
		}
		if locked, err = filelock.Try(k.file); err != nil {
			return false, errors.ErrUnsupported
		}
		if locked {
			return true, nil
		}
		time.Sleep(lockEvery)
	}
	return false, nil
}

// reclaim gives back the space that an upload which can be resumed takes behind its
// mark, if its process died: one that ends by Close has done so itself. That would
// go when the upload is resumed, too. One without a mark, from which none can be
// resumed, is removed.
//
// An upload under way, here or in another process, holds the lock of its file. One
// that is resumed at this very moment waits for ours: see lockSoon.
func (s *sweep) reclaim(name string) (removed bool, err error) {
	if !strings.HasSuffix(name, string(tempname.Keep)) {
		return false, nil
	}
	root := s.store.root.Root
	f, err := openRegular(root, name, os.O_RDWR)
	if err != nil {
		return false, err
	}
	defer f.Close()
	// Most have nothing to give back, and no upload shall wait for a lock on those.
	if _, _, over := s.surplus(name, f); !over {
		return false, nil
	}
	locked, err := filelock.Try(f)
	if err != nil || !locked {
		return false, err
	}
	safe, modified, over := s.surplus(name, f) // again, now that the lock keeps it from changing
	switch {
	case !over:
		return false, nil
	case safe == 0:
		err := root.Remove(name)
		return err == nil, err
	}
	if err := s.store.call("truncate", func() error { return f.Truncate(safe) }); err != nil {
		return false, err
	}
	// It stays as old as what was written to it, or it would be kept for another week.
	return false, futimes(f, time.Time{}, modified)
}

// surplus reports whether a kept file has more than is safe of it, and how much that
// is. Of what is not this process's, has another name too, or has a mark that makes
// no sense, it reports nothing.
func (s *sweep) surplus(name string, f *os.File) (safe int64, modified time.Time, over bool) {
	fi, err := f.Stat()
	if err != nil {
		return 0, time.Time{}, false
	}
	// A Commit that was cut short may have published it by a second name.
	if d, ok := DetailsOf(fi); !ok || d.Links != 1 || int(d.UID) != os.Geteuid() {
		return 0, time.Time{}, false
	}
	if named, err := s.store.root.Lstat(name); err != nil || !os.SameFile(named, fi) {
		return 0, time.Time{}, false
	}
	safe, ok := s.marked(name, f, fi)
	return safe, fi.ModTime(), ok && fi.Size() > safe
}

// marked returns how much of a kept file its mark says is safe: nothing if there is
// no mark yet. It reports false if the mark is not to be trusted.
func (s *sweep) marked(name string, f *os.File, fi fs.FileInfo) (safe int64, ok bool) {
	marks, err := openRegular(s.store.root.Root, strings.TrimSuffix(name, string(tempname.Keep))+string(tempname.Mark), os.O_RDONLY)
	if err != nil {
		return 0, errors.Is(err, fs.ErrNotExist)
	}
	defer marks.Close()
	if mi, err := marks.Stat(); err != nil || mi.Size() == 0 {
		return 0, err == nil // created, and then the process died
	}
	m, ok := readMark(marks)
	if !ok || m.inode != inode(fi) {
		return 0, false
	}
	sum, err := tailSum(f, m.size)
	return m.safe, err == nil && sum == m.tail
}
