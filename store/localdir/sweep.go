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
	maxSweepErrors = 16 // errors reported by one sweep
)

// Sweep removes what uploads left behind whose process died, in the whole
// tree, and returns how many files it removed. Uploads under way are left
// alone, in other processes too: their files are locked. Where there are no
// locks, Sweep removes nothing. An upload that can be resumed ([store.Create].Resume) it
// removes a week after the last write; until then it gives back the space that was
// set aside for the rest.
//
// Symbolic links are not followed. Files that cannot be read or removed are
// skipped; the error joins the first 16 reasons. It ends early when ctx does.
func (d *Dir) Sweep(ctx context.Context) (removed int, err error) {
	s := sweep{store: d, ctx: ctx}
	s.dir(".", 0)
	return s.removed, errors.Join(s.errs...)
}

// removeLeftovers is [Dir.Sweep] for one directory without those below it.
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

func (s *sweep) remove(name string) (bool, error) {
	return removeLeftover(s.store.root.bare(), name)
}

// removeLeftover removes a hidden file unless an upload holds its lock.
func removeLeftover(dir directory, name string) (bool, error) {
	// NFS locks only what is open for writing; a file whose upload died just
	// before it was published may by then be read-only.
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

// end notes that ctx ended, once however deep the sweep was.
func (s *sweep) end(err error) {
	if n := len(s.errs); n == 0 || s.errs[n-1] != err {
		s.errs = append(s.errs, err)
	}
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
	root := s.store.root.bare()
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
	if d, ok := store.DetailsOf(fi); !ok || d.Links != 1 || int(d.UID) != os.Geteuid() {
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
	marks, err := openRegular(s.store.root.bare(), strings.TrimSuffix(name, string(tempname.Keep))+string(tempname.Mark), os.O_RDONLY)
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
