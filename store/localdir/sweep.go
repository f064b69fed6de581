package localdir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

const (
	maxSweepErrors = 16 // largest number of errors that one sweep reports
)

// Sweep removes, in the whole tree, the temporary files that uploads of dead processes left behind,
// and returns how many files it removed. It leaves uploads in progress alone, including those of
// other processes, because their files are locked. On file systems without locks it removes
// nothing. An upload that can be resumed ([store.Create].Resume) is removed a week after its last
// write; until then, Sweep frees only the space after its checkpoint.
//
// Sweep does not follow symbolic links. It skips files that cannot be read or removed. Its error
// joins the first 16 errors. It stops when ctx ends.
func (d *Dir) Sweep(ctx context.Context) (removed int, err error) {
	s := sweep{store: d, ctx: ctx}
	s.dir(".", 0)
	return s.removed, errors.Join(s.errs...)
}

// removeLeftovers is like [Dir.Sweep], but for one directory without its subdirectories.
func (d *Dir) removeLeftovers(ctx context.Context, name string) error {
	if err := rules.CheckName(ctx, name); err != nil {
		return d.fail("sweep", name, err)
	}
	s := sweep{store: d, ctx: ctx}
	_, err := d.eachName(ctx, name, func(base string) bool {
		if !isTemp(base) {
			return true
		}
		full := path.Join(name, base)
		fi, err := d.root.Lstat(full)
		if err == nil && fi.Mode().IsRegular() {
			s.leftover(full)
		}
		return true
	})
	if err != nil {
		s.fail(name, err)
	}
	return errors.Join(s.errs...)
}

type sweep struct {
	store   *Dir
	ctx     context.Context // the context of the call of Sweep or removeLeftovers
	removed int
	errs    []error
}

func (s *sweep) dir(name string, depth int) {
	if depth > maxSweepDepth {
		s.fail(name, fmt.Errorf("deeper than %d directories", maxSweepDepth))
		return
	}
	f, err := s.store.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		s.fail(name, err)
		return
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(dirBatch)
		for _, e := range entries {
			if err := s.ctx.Err(); err != nil {
				s.end(err)
				return
			}
			s.entry(path.Join(name, e.Name()), e.Type(), depth)
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			s.fail(name, err)
			return
		}
	}
}

func (s *sweep) entry(name string, kind fs.FileMode, depth int) {
	switch {
	case kind.IsDir():
		s.dir(name, depth+1)
	case kind.IsRegular() && isTemp(name):
		s.leftover(name)
	}
}

// leftover removes a temporary file. If its upload can be resumed, leftover removes only the part
// that is not safe.
func (s *sweep) leftover(name string) {
	act := s.remove
	if s.resumable(name) {
		act = s.reclaim
	}
	removed, err := act(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // ErrNotExist means that the upload was just committed
		s.fail(name, err)
	}
	if removed {
		s.removed++
	}
}

// resumable reports whether the file belongs to an upload that can be resumed, and is not too old
// for that.
func (s *sweep) resumable(name string) bool {
	if strings.HasSuffix(name, string(tempname.Part)) {
		return false
	}
	fi, err := s.store.root.Lstat(name)
	return err == nil && time.Since(fi.ModTime()) < keepFor
}

func (s *sweep) remove(name string) (bool, error) {
	return removeLeftover(s.store.root.bare(), name)
}

// removeLeftover removes a temporary file, unless an upload holds its lock. It reports whether it
// has removed the file.
func removeLeftover(dir directory, name string) (bool, error) {
	// NFS locks only files that are open for writing. But a file may be read-only, if its upload
	// died just before it published the file.
	f, err := openRegular(dir, name, os.O_RDWR)
	if errors.Is(err, fs.ErrPermission) {
		f, err = openRegular(dir, name, os.O_RDONLY)
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	locked, err := filelock.Try(f)
	if err != nil || !locked {
		return false, err
	}
	err = dir.Remove(name)
	return err == nil, err
}

func (s *sweep) fail(name string, err error) {
	if len(s.errs) < maxSweepErrors {
		s.errs = append(s.errs, s.store.fail("sweep", name, err))
	}
}

// end records the error of ctx, once only: each level of a deep sweep calls it.
func (s *sweep) end(err error) {
	if n := len(s.errs); n == 0 || s.errs[n-1] != err {
		s.errs = append(s.errs, err)
	}
}

// reclaim frees the space after the checkpoint of a resumable upload whose process died. (An upload
// that ended by Close has already freed it.) That data is of no use, as a resumed upload would
// discard it too. If the upload has no checkpoint, it cannot be resumed, and reclaim removes its
// file.
//
// An upload in progress, in this process or another, holds the lock of its file, so reclaim leaves
// it alone. An upload that is resumed at this very moment waits until reclaim releases the lock:
// see lockSoon.
func (s *sweep) reclaim(name string) (removed bool, err error) {
	if !strings.HasSuffix(name, string(tempname.Keep)) {
		return false, nil
	}
	root := s.store.root.bare()
	f, err := openRegular(root, name, os.O_RDWR)
	if err != nil {
		return false, err
	}
	defer f.Close()
	// Most files have no surplus. Check that before locking, so that no upload has to wait for the
	// lock of such a file.
	if _, _, over := s.surplus(name, f); !over {
		return false, nil
	}
	locked, err := filelock.Try(f)
	if err != nil || !locked {
		return false, err
	}
	safe, modified, over := s.surplus(name, f) // check again, now that the file is locked and cannot change
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
	// Keep the time of the last write: otherwise the file would be kept for another week.
	return false, futimes(f, time.Time{}, modified)
}

// surplus returns the length of the safe part of a temporary file, and reports whether the file is
// longer than that. It reports false for a file that belongs to another user, has a second name, or
// has an invalid checkpoint.
func (s *sweep) surplus(name string, f *os.File) (safe int64, modified time.Time, over bool) {
	fi, err := f.Stat()
	if err != nil {
		return 0, time.Time{}, false
	}
	// If the file has a second name, an interrupted Commit may have published it.
	if d, ok := store.DetailsOf(fi); !ok || d.Links != 1 || int(d.UID) != os.Geteuid() {
		return 0, time.Time{}, false
	}
	if named, err := s.store.root.Lstat(name); err != nil || !os.SameFile(named, fi) {
		return 0, time.Time{}, false
	}
	safe, ok := s.safeBytes(name, f, fi)
	return safe, fi.ModTime(), ok && fi.Size() > safe
}

// safeBytes returns how many bytes of a temporary file are safe according to its checkpoint, or 0
// if there is no checkpoint yet. It returns false if the checkpoint cannot be trusted.
func (s *sweep) safeBytes(name string, f *os.File, fi fs.FileInfo) (safe int64, ok bool) {
	checkpoints, err := openRegular(s.store.root.bare(), strings.TrimSuffix(name, string(tempname.Keep))+string(tempname.Checkpoint), os.O_RDONLY)
	if err != nil {
		return 0, errors.Is(err, fs.ErrNotExist)
	}
	defer checkpoints.Close()
	if mi, err := checkpoints.Stat(); err != nil || mi.Size() == 0 {
		return 0, err == nil // an empty file means that the process died just after it created the file
	}
	m, ok := readCheckpoint(checkpoints)
	if !ok || m.inode != inode(fi) {
		return 0, false
	}
	sum, err := tailSum(f, m.size)
	return m.safe, err == nil && sum == m.tail
}
