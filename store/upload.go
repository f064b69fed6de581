package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
)

const (
	maxLinks     = 8 // symbolic links followed to find an upload's target
	maxTempTries = 8 // temporary names tried before giving up
)

// errReserved answers an upload to the name of another one's hidden file.
var errReserved = fmt.Errorf("%w: name is reserved for uploads under way", fs.ErrPermission)

// A dirUpload is a hidden file beside its target. Open, it holds two
// descriptors: the file's and its directory's.
type dirUpload struct {
	store *DirStore
	name  string   // the caller's, for errors
	dir   *os.Root // the target's directory, even if that is moved
	base  string   // the target's name there
	temp  string   // the hidden file's name there; "" once it is renamed
	file  *os.File // the hidden file, locked against sweeps
	c     Create

	mu    sync.Mutex
	end   int64 // mu: the size to commit; reserved space may reach further
	data  int64 // mu: from here on nothing but zeros was ever written: see sparse.go
	dirty int64 // mu: bytes written since the disk was last set going
	done  bool  // mu: committed or closed
}

// writebackEvery is after how many bytes the disk is set going, where that can be
// asked for. Commit waits until all is on the disk: for a large file that began
// only then, it would take as long as the upload itself.
const writebackEvery = 8 << 20

// Create begins an upload. The space for c.Size is set aside at once where
// the file system can do that.
//
// Pages of zeros behind everything else written so far are left out: they are
// holes, so that a sparse disk image that comes in order stays sparse. But what
// c.Size sets aside stays so: for an image that only fits the disk because of
// its holes, leave Size 0, or it fails with [ErrNoSpace].
func (d *DirStore) Create(ctx context.Context, name string, c Create) (Upload, error) {
	if err := check(ctx, name); err != nil {
		return nil, d.fail("create", name, err)
	}
	u := &dirUpload{store: d, name: name, c: c}
	if err := u.begin(); err != nil {
		_ = u.discard() // what is left of it, a sweep removes
		return nil, u.fail("create", err)
	}
	return u, nil
}

func (u *dirUpload) begin() error {
	if err := u.resolve(); err != nil {
		return err
	}
	if isTemp(u.base) {
		return errReserved
	}
	if _, err := u.perm(); err != nil {
		return err
	}
	if err := u.openTemp(); err != nil {
		return err
	}
	if u.c.Size <= 0 {
		return nil
	}
	return u.call("reserve", func() error { return reserve(u.file, u.c.Size) })
}

// resolve finds the target's directory and the name it has there, following
// symbolic links unless the name must be new.
func (u *dirUpload) resolve() error {
	name := u.name
	for range maxLinks + 1 {
		dir, base := path.Split(name)
		link, err := u.store.root.Readlink(name)
		if err != nil || u.c.Exclusive { // no link, or not to be followed
			return u.at(dir, base)
		}
		if filepath.IsAbs(link) || filepath.VolumeName(link) != "" {
			return errOutside
		}
		// Joined but not cleaned: what ".." means depends on the links
		// before it, and root knows.
		name = dir + filepath.ToSlash(link)
	}
	return syscall.ELOOP
}

// at sets the target to base in dir, which is empty or ends in a slash.
func (u *dirUpload) at(dir, base string) (err error) {
	if base == "" || base == ".." { // where a link may lead
		return ErrNotRegular
	}
	u.base = base
	// Asked for what is in dir, root opens dir as a directory only. Asked for
	// dir itself, it would open a pipe of that name, and wait.
	u.dir, err = u.store.root.OpenRoot("./" + dir + ".")
	return err
}

// perm returns the permission bits the file will have, or an error if it may
// not take its name.
func (u *dirUpload) perm() (fs.FileMode, error) {
	fi, err := u.dir.Lstat(u.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return u.c.perm(), nil
	case err != nil:
		return 0, err
	case u.c.Exclusive:
		return 0, fs.ErrExist
	case !fi.Mode().IsRegular():
		return 0, ErrNotRegular
	}
	return fi.Mode().Perm(), nil
}

// openTemp creates the hidden file and locks it.
func (u *dirUpload) openTemp() error {
	for range maxTempTries {
		name := tempPrefix + rand.Text()[:tempRandom] + tempSuffix
		err := u.call("create", func() (err error) {
			u.file, err = u.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|largeFile, 0o600)
			return err
		})
		if err != nil {
			return err
		}
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

// lockTemp locks the hidden file. It reports false if a sweep got hold of
// the file between its creation and its lock.
func (u *dirUpload) lockTemp() bool {
	locked, err := tryLock(u.file)
	if err != nil {
		return true // no locks on this file system: nor can a sweep get one
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
	n, err := u.writeSparse(p, off)
	if n > 0 && u.wrote(off, int64(n)) {
		// An error is no loss: Commit asks again, and waits.
		_ = u.call("writeback", func() error { return startWriteback(u.file) })
	}
	if err != nil {
		return n, u.fail("write", err)
	}
	return n, nil
}

// wrote notes n bytes at off, and reports whether to set the disk going.
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
	err := u.call("truncate", func() error { return u.file.Truncate(size) })
	if err != nil {
		return u.fail("truncate", err)
	}
	u.end, u.data = size, min(u.data, size)
	return nil
}

func (u *dirUpload) Commit() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return u.fail("commit", fs.ErrClosed)
	}
	u.done = true
	err := u.publish()
	_ = u.discard() // what is left of it, a sweep removes
	if err != nil {
		return u.fail("commit", err)
	}
	return nil
}

// publish makes the file what it shall be, then durable, then visible.
func (u *dirUpload) publish() error {
	perm, err := u.perm()
	if err != nil {
		return err
	}
	if err := u.call("truncate", func() error { return u.file.Truncate(u.end) }); err != nil {
		return err
	}
	if err := u.call("chmod", func() error { return u.file.Chmod(perm) }); err != nil {
		return err
	}
	if err := u.call("sync", u.file.Sync); err != nil {
		return err
	}
	if u.c.Exclusive {
		err = u.link()
	} else {
		err = u.rename()
	}
	if err != nil {
		return err
	}
	return u.call("syncdir", func() error { return syncDir(u.dir) })
}

// rename gives the file its name, in place of a file that has it.
func (u *dirUpload) rename() error {
	err := u.call("rename", func() error { return u.dir.Rename(u.temp, u.base) })
	if err == nil {
		u.temp = ""
	}
	return err
}

// link gives the file its name unless the name is taken. The hidden name
// remains, for discard to remove.
func (u *dirUpload) link() error {
	err := u.call("link", func() error { return u.dir.Link(u.temp, u.base) })
	if err == nil {
		return nil
	}
	if errors.Is(err, fs.ErrExist) {
		return fs.ErrExist
	}
	// File systems without hard links (FAT) refuse in many ways. There, a
	// file that appears between look and rename is lost.
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

// discard closes what is open and removes the hidden file if there is one.
func (u *dirUpload) discard() error {
	if u.dir == nil {
		return nil
	}
	defer u.dir.Close()
	if u.file == nil {
		return nil
	}
	// The descriptor goes first, for Windows. The lock goes with it, so a
	// sweep may be quicker to remove the file.
	_ = u.file.Close()
	if u.temp == "" {
		return nil
	}
	err := u.call("remove", func() error { return u.dir.Remove(u.temp) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// call makes a system call, unless a test wants it to fail.
func (u *dirUpload) call(name string, f func() error) error {
	if err := u.store.hook(name); err != nil {
		return err
	}
	return f()
}

func (u *dirUpload) fail(op string, err error) error { return u.store.fail(op, u.name, err) }
