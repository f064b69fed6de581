package localdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

const maxTempTries = 8 // how many temporary names are tried

// writebackEvery is the number of written bytes after which an upload asks the kernel to start
// writing to the disk, if the system supports that. Commit waits until everything is on the disk.
// If the kernel began to write a large file only then, Commit could take as long as the upload
// itself.
const writebackEvery = 8 << 20

// cutBehind removes all data after the first n bytes of the temporary file.
func (u *dirUpload) cutBehind(n int64) error {
	fi, err := u.file.Stat()
	if err != nil || fi.Size() <= n {
		return err
	}
	return u.resize(n)
}

// resize cuts the temporary file to n bytes, or extends it with zeros. Most files have that size
// already: then the only system call is fstat, which is cheaper than ftruncate.
func (u *dirUpload) resize(n int64) error {
	return u.call("truncate", func() error {
		if fi, err := u.file.Stat(); err == nil && fi.Size() == n {
			return nil
		}
		return u.file.Truncate(n)
	})
}

// perm returns the permission bits that the file gets at Commit. It returns an error if the file
// may not have its name.
func (u *dirUpload) perm() (fs.FileMode, error) {
	fi, err := u.dir.Lstat(u.base)
	switch {
	case errors.Is(err, fs.ErrNotExist) && u.store.Native && u.file != nil:
		return permOf(u.file) // the bits with which the system created the temporary file
	case errors.Is(err, fs.ErrNotExist):
		return rules.FilePerm(u.c.Perm), nil
	case err != nil:
		return 0, err
	case u.c.Exclusive:
		return 0, fs.ErrExist
	case !fi.Mode().IsRegular():
		return 0, store.ErrNotRegular
	}
	return fi.Mode().Perm(), nil
}

// Perm returns the permission bits that the file would get if Commit were called now.
func (u *dirUpload) Perm() (fs.FileMode, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return 0, false
	}
	perm, err := u.perm()
	return perm, err == nil // the same error will make Commit fail
}

// openTemp creates the temporary file, with at most the permissions in `perm`, and locks it.
func (u *dirUpload) openTemp(perm fs.FileMode) error {
	key := u.firstKey()
	for range maxTempTries {
		name := tempname.New(key, tempname.Part)
		err := u.call("create", func() (err error) {
			u.file, err = u.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|fileFlags, perm)
			return err
		})
		if errors.Is(err, fs.ErrExist) {
			if removed, _ := removeLeftover(u.dir, name); !removed {
				key = tempname.Random()
			}
			continue
		}
		if err != nil {
			return err
		}
		key = tempname.Random()
		u.temp = name
		if err := u.store.hook("lock"); err != nil {
			return err
		}
		if u.lockTemp() {
			return nil
		}
		_ = u.file.Close()
	}
	return fmt.Errorf("%d temporary files in turn were taken away", maxTempTries)
}

// lockTemp locks the temporary file. It returns false if a sweep has locked or removed the file
// since it was created.
func (u *dirUpload) lockTemp() bool {
	locked, err := filelock.Try(u.file)
	if err != nil {
		return true // this file system has no locks, so a sweep cannot lock the file either
	}
	if !locked {
		return false
	}
	mine, err := u.file.Stat()
	if err != nil {
		return false
	}
	named, err := u.dir.Lstat(u.temp)
	return err == nil && os.SameFile(mine, named)
}

func (u *dirUpload) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, u.fail("write", fs.ErrInvalid)
	}
	u.writing.RLock()
	defer u.writing.RUnlock()
	n, err := u.writeSparse(p, off)
	if n > 0 && u.wrote(off, int64(n)) {
		// An error here can be ignored, because Commit syncs the file and gets the error too.
		_ = u.call("writeback", func() error { return startWriteback(u.file) })
	}
	if err != nil {
		return n, u.fail("write", err)
	}
	return n, nil
}

// wrote records that n bytes were written at off, and reports whether to start writeback now.
func (u *dirUpload) wrote(off, n int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.end = max(u.end, off+n)
	if u.dirty += n; u.dirty < writebackEvery {
		return false
	}
	u.dirty = 0
	return true
}

func (u *dirUpload) Truncate(size int64) error {
	if size < 0 {
		return u.fail("truncate", fs.ErrInvalid)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.resize(size); err != nil {
		return u.fail("truncate", err)
	}
	u.end, u.data = size, min(u.data, size)
	return nil
}

// SetAttr stores the mode and the times that Commit will set.
func (u *dirUpload) SetAttr(a store.Attr) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.done:
		return u.fail("setattr", fs.ErrClosed)
	case a.Size != nil || a.ChangesOwner():
		return u.fail("setattr", errors.ErrUnsupported)
	}
	merge(&u.attr, a)
	return nil
}

// merge replaces the mode and the times in a by those that b sets.
func merge(a *store.Attr, b store.Attr) {
	if b.Mode != nil {
		mode := *b.Mode
		a.Mode = &mode
	}
	if !b.AccessTime.IsZero() {
		a.AccessTime = b.AccessTime
	}
	if !b.ModTime.IsZero() {
		a.ModTime = b.ModTime
	}
}

// openUpload opens, for reading, the data written so far to an upload of this store.
func (d *Dir) openUpload(ctx context.Context, upload store.Upload) (store.File, error) {
	u, ok := store.As[*dirUpload](upload)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return u.open(ctx)
}

func (u *dirUpload) open(ctx context.Context) (store.File, error) {
	u.writing.Lock()
	defer u.writing.Unlock()
	u.mu.Lock()
	defer u.mu.Unlock()
	err := ctx.Err()
	if err == nil && u.done {
		err = fs.ErrClosed
	}
	if err == nil {
		err = u.extend()
	}
	if err == nil {
		var f *os.File
		if f, err = u.dir.OpenFile(u.temp, os.O_RDONLY|fileFlags, 0); err == nil {
			return u.store.newFile(f, u.name, nil)
		}
	}
	return nil, u.fail("open", err)
}

// extend gives the temporary file its full size, which it lacks if the zeros at its end were
// skipped. The caller holds writing and mu.
func (u *dirUpload) extend() error {
	fi, err := u.file.Stat()
	if err != nil || fi.Size() >= u.end {
		return err
	}
	return u.call("truncate", func() error { return u.file.Truncate(u.end) })
}

func (u *dirUpload) Commit() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return u.fail("commit", fs.ErrClosed)
	}
	u.done = true
	err := u.publish()
	if err == nil {
		if k := u.store.Kept; k != nil && u.c.Published != nil {
			k.keep(u)
		}
		u.store.makers.keep(u)
	}
	_ = u.discard() // if this fails, a sweep removes the files later
	if err != nil {
		return u.fail("commit", err)
	}
	return nil
}

// publish sets the file's size and attributes, makes it durable, and then gives it its name.
func (u *dirUpload) publish() error {
	perm, err := u.perm()
	if err != nil {
		return err
	}
	if err := u.resize(u.end); err != nil {
		return err
	}
	if u.attr.Mode != nil {
		perm = newMode(nil, *u.attr.Mode, u.store.SpecialBits)
	}
	if err := u.call("chmod", func() error { return u.file.Chmod(perm) }); err != nil {
		return err
	}
	if timed(u.attr) {
		err := u.call("chtimes", func() error { return futimes(u.file, u.attr.AccessTime, u.attr.ModTime) })
		if err != nil {
			return err
		}
	}
	if !u.c.NoSync {
		if err := u.call("sync", u.file.Sync); err != nil {
			return err
		}
	}
	name := u.rename
	if u.c.Exclusive {
		name = u.link
	}
	if u.c.NoSync {
		return name()
	}
	return u.store.durably(u.dir, name)
}

// rename gives the file its name, and so replaces an existing file.
func (u *dirUpload) rename() error {
	err := u.call("rename", func() error { return u.dir.Rename(u.temp, u.base) })
	switch {
	case err == nil:
		u.temp = ""
	// A directory of that name was made after perm was called.
	case errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrExist):
		return rules.ErrIsDir
	}
	return err
}

// link gives the file its name, unless the name is taken. The temporary name remains until discard
// removes it.
func (u *dirUpload) link() error {
	err := u.call("link", func() error { return u.dir.Link(u.temp, u.base) })
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return fs.ErrExist
	}
	// File systems without hard links (FAT) return various errors. On these, check and rename
	// instead; if another file gets the name in between, it is lost.
	if _, err := u.perm(); err != nil {
		return err
	}
	return u.rename()
}

func (u *dirUpload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return nil
	}
	u.done = true
	if err := u.discard(); err != nil {
		return u.fail("discard", err)
	}
	return nil
}

// discard closes the open files. It removes the temporary file, if there is one, and the
// directories that were made for a failed upload.
func (u *dirUpload) discard() error {
	defer u.unmakeParents()
	if u.dir == nil {
		return nil
	}
	defer u.dir.Close()
	if u.after != nil {
		defer u.after()
	}
	return u.removeTemp()
}

// removeTemp closes and removes the temporary file.
func (u *dirUpload) removeTemp() error {
	// Close the descriptor first, because Windows cannot remove an open file. That also releases
	// the lock, so a sweep may remove the file before this function does.
	if u.file != nil {
		_ = u.file.Close()
	}
	if u.temp == "" {
		return nil
	}
	err := u.call("remove", func() error { return u.dir.Remove(u.temp) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Location returns the path of the upload's target.
func (u *dirUpload) Location() store.Location { return u.store.location(u.name) }

// KeptUploads makes Commit open each published file for reading, so that its content can be read
// even after its name has been given to another file: see [store.Create].Published. Several stores
// may share one KeptUploads.
type KeptUploads struct {
	// Max is the largest number of files that are open at a time. Beyond that, files are described,
	// but not opened.
	Max int64

	open atomic.Int64 // number of files that are open
}

// keep describes the file that an upload has just published and, if Max allows, opens it.
func (k *KeptUploads) keep(u *dirUpload) {
	info, err := u.file.Stat()
	if err != nil {
		return
	}
	p := u.c.Published
	*p = store.Published{Info: info, When: time.Now()}
	if k.open.Add(1) > k.Max {
		k.open.Add(-1)
		return
	}
	f, err := u.dir.OpenFile(u.base, os.O_RDONLY|fileFlags, 0)
	if err == nil {
		if now, statErr := f.Stat(); statErr != nil || !os.SameFile(now, info) {
			_ = f.Close()
			err = os.ErrNotExist // the file has been replaced just now
		}
	}
	if err != nil {
		k.open.Add(-1)
		return
	}
	p.File, p.Closed = f, func() { k.open.Add(-1) }
}
