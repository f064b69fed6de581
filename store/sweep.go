package store

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
)

const (
	maxSweepDepth  = 64  // directories below each other; each holds a descriptor
	maxSweepErrors = 16  // errors reported by one sweep
	dirBatch       = 256 // directory entries read at once, and in memory per level of a sweep
)

// Sweep removes what uploads left behind whose process died, in the whole
// tree, and returns how many files it removed. Uploads under way are left
// alone, in other processes too: their files are locked. Where there are no
// locks, Sweep removes nothing. An upload that can be resumed ([Create.Resume]) it
// removes a week after the last write; until then it gives back the space that was
// set aside for the rest.
//
// Symbolic links are not followed. Files that cannot be read or removed are
// skipped; the error joins the first 16 reasons. It ends early when ctx does.
func (d *DirStore) Sweep(ctx context.Context) (removed int, err error) {
	s := sweep{store: d, ctx: ctx}
	s.dir(".", 0)
	return s.removed, errors.Join(s.errs...)
}

// SweepDir is [DirStore.Sweep] for what is in one directory itself.
func (d *DirStore) SweepDir(ctx context.Context, name string) error {
	if err := check(ctx, name); err != nil {
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
	store   *DirStore
	ctx     context.Context // for the length of one Sweep
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

// leftover removes a temporary file, or what is too much of one that is kept.
func (s *sweep) leftover(name string) {
	act := s.remove
	if s.resumable(name) {
		act = s.reclaim
	}
	removed, err := act(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // just committed
		s.fail(name, err)
	}
	if removed {
		s.removed++
	}
}

// resumable reports whether name is that of a file which can be resumed, and is
// not too old for that.
func (s *sweep) resumable(name string) bool {
	if strings.HasSuffix(name, string(tempname.Part)) {
		return false
	}
	fi, err := s.store.root.Lstat(name)
	return err == nil && time.Since(fi.ModTime()) < keepFor
}

// remove removes a temporary file unless an upload holds its lock.
func (s *sweep) remove(name string) (bool, error) {
	root := s.store.root.Root
	// NFS locks only what is open for writing; a file whose upload died just
	// before it was published may by then be read-only.
	f, err := root.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrPermission) {
		f, err = root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	locked, err := filelock.Try(f)
	if err != nil || !locked {
		return false, err
	}
	err = root.Remove(name)
	return err == nil, err
}

func (s *sweep) fail(name string, err error) {
	if len(s.errs) < maxSweepErrors {
		s.errs = append(s.errs, s.store.fail("sweep", name, err))
	}
}

// end notes that ctx ended, once however deep the sweep was.
func (s *sweep) end(err error) {
	if n := len(s.errs); n == 0 || s.errs[n-1] != err {
		s.errs = append(s.errs, err)
	}
}
