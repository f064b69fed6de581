package localdir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// maxOpenTries is the largest number of attempts to open a file that others keep creating and
// removing.
const maxOpenTries = 8

// OpenFile opens a regular file in place: see [store.Tree]. For anything else it returns
// [store.ErrNotRegular] without even opening it.
//
// A file that is opened for writing loses its setuid and setgid bits. The kernel would clear them
// if an ordinary user wrote to the file, but not if this process runs as root. Without this, a
// client could write its own program into a file that has such a bit.
func (d *Dir) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := d.openFile(ctx, name, a)
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	return h, nil
}

func (d *Dir) openFile(ctx context.Context, name string, a store.Access) (*dirHandle, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return nil, err
	}
	if err := a.Check(); err != nil {
		return nil, err
	}
	dir, base, err := d.resolve(name, !a.Exclusive)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if isTemp(base) {
		if a.Create {
			return nil, rules.ErrReserved
		}
		return nil, fs.ErrNotExist
	}
	f, err := d.openInPlace(dir, base, a)
	if err != nil {
		return nil, err
	}
	return &dirHandle{store: d, name: name, access: a, file: f}, nil
}

// openInPlace opens the file named base in dir, or creates it if a.Create is set.
func (d *Dir) openInPlace(dir directory, base string, a store.Access) (*os.File, error) {
	for range maxOpenTries {
		if !a.Exclusive {
			f, err := d.openOld(dir, base, a)
			if err == nil || !a.Create || !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
		f, err := d.openNew(dir, base, a)
		if err == nil || a.Exclusive || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("it came and went %d times meanwhile", maxOpenTries)
}

// flags returns the flags for open(2) of an existing file.
func flags(a store.Access) int {
	all := syscall.O_NONBLOCK | largeFile
	switch {
	case a.Append:
		all |= os.O_APPEND
		fallthrough
	case a.Write:
		if a.Read {
			return all | os.O_RDWR
		}
		return all | os.O_WRONLY
	}
	return all | os.O_RDONLY
}

func (d *Dir) openOld(dir directory, base string, a store.Access) (*os.File, error) {
	fi, err := dir.Lstat(base)
	if err != nil {
		return nil, err
	}
	if !opens(fi.Mode(), d.Native) {
		return nil, store.ErrNotRegular
	}
	if err := d.hook("open"); err != nil {
		return nil, err
	}
	// By now the name may belong to a pipe or a link. O_NONBLOCK prevents waiting for the other end
	// of a pipe, and dir does not follow a link out of itself.
	f, err := dir.OpenFile(base, flags(a), 0)
	if errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EISDIR) {
		return nil, store.ErrNotRegular // it is a pipe without a reader, a socket, or a directory
	}
	if err != nil {
		return nil, err
	}
	if err := d.prepare(f, a); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// prepare checks that f is a regular file or, in a Native store, a device. If a is for writing,
// prepare clears the setuid and setgid bits, and if a.Truncate is set, it empties the file.
func (d *Dir) prepare(f *os.File, a store.Access) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !opens(fi.Mode(), d.Native) {
		return store.ErrNotRegular
	}
	if a.Writes() && fi.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
		err := d.call("chmod", func() error { return f.Chmod(fi.Mode() &^ (fs.ModeSetuid | fs.ModeSetgid)) })
		if err != nil {
			return err
		}
	}
	if a.Truncate && fi.Size() > 0 {
		return d.call("truncate", func() error { return f.Truncate(0) })
	}
	return nil
}

func (d *Dir) openNew(dir directory, base string, a store.Access) (f *os.File, err error) {
	err = d.call("create", func() error {
		f, err = dir.OpenFile(base, flags(a)|os.O_CREATE|os.O_EXCL, firstPerm(a.Perm, d.Native))
		return err
	})
	if err != nil || d.Native {
		return f, err
	}
	err = d.call("chmod", func() error { return f.Chmod(rules.FilePerm(a.Perm)) })
	if err != nil {
		_ = f.Close()
		_ = dir.Remove(base)
		return nil, err
	}
	return f, nil
}

// A dirHandle is a file that is open in place.
type dirHandle struct {
	store  *Dir
	name   string // the name given to OpenFile, for errors
	access store.Access
	file   *os.File
}

func (h *dirHandle) Stat() (fs.FileInfo, error) {
	fi, err := h.file.Stat()
	if err != nil {
		return nil, h.fail("stat", err)
	}
	return fi, nil
}

func (h *dirHandle) ReadAt(p []byte, off int64) (int, error) {
	if !h.access.Read {
		return 0, h.fail("read", rules.ErrNotReading)
	}
	if off < 0 {
		return 0, h.fail("read", fs.ErrInvalid)
	}
	n, err := h.file.ReadAt(p, off)
	if err != nil && err != io.EOF {
		return n, h.fail("read", err)
	}
	return n, err
}

func (h *dirHandle) WriteAt(p []byte, off int64) (n int, err error) {
	if err := h.writable(); err != nil {
		return 0, h.fail("write", err)
	}
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, h.fail("write", fs.ErrInvalid)
	}
	if err = h.store.hook("write"); err == nil {
		if h.access.Append {
			n, err = h.file.Write(p) // the kernel finds the end of the file
		} else {
			n, err = h.file.WriteAt(p, off)
		}
	}
	if err != nil {
		return n, h.fail("write", err)
	}
	return n, nil
}

func (h *dirHandle) Truncate(size int64) error {
	err := h.writable()
	if err == nil && size < 0 {
		err = fs.ErrInvalid
	}
	if err == nil {
		err = h.store.call("truncate", func() error { return h.file.Truncate(size) })
	}
	if err != nil {
		return h.fail("truncate", err)
	}
	return nil
}

func (h *dirHandle) SetAttr(a store.Attr) error {
	err := a.Check()
	if err == nil && a.Size != nil {
		err = h.writable()
	}
	if err == nil {
		err = target{
			calls: &h.store.calls, special: h.store.SpecialBits,
			stat:     h.file.Stat,
			truncate: h.file.Truncate,
			chmod:    h.file.Chmod,
			chtimes:  func(atime, mtime time.Time) error { return futimes(h.file, atime, mtime) },
			chown:    h.file.Chown,
		}.change(a)
	}
	if err != nil {
		return h.fail("setattr", err)
	}
	return nil
}

func (h *dirHandle) Sync() error {
	var err error
	if h.access.Writes() {
		err = h.store.call("sync", h.file.Sync)
	} else {
		// Windows cannot sync a file that is not open for writing, so only check that it is not
		// closed.
		_, err = h.file.Stat()
	}
	if err != nil {
		return h.fail("sync", err)
	}
	return nil
}

func (h *dirHandle) Close() error {
	if err := h.file.Close(); err != nil {
		return h.fail("close", err)
	}
	return nil
}

func (h *dirHandle) writable() error {
	if !h.access.Writes() {
		return rules.ErrNotWriting
	}
	return nil
}

func (h *dirHandle) fail(op string, err error) error { return h.store.fail(op, h.name, err) }

// Location returns the path by which the file was opened.
func (h *dirHandle) Location() store.Location { return h.store.location(h.name) }

// SetAttr changes attributes: see [store.Tree]. The times of a symbolic link itself can be changed
// on Linux only.
func (d *Dir) SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	if err := d.setAttr(ctx, name, a, follow); err != nil {
		return d.fail("setattr", name, err)
	}
	return nil
}

func (d *Dir) setAttr(ctx context.Context, name string, a store.Attr, follow bool) error {
	if err := a.Check(); err != nil {
		return err
	}
	look := d.lstat
	if follow {
		look = d.stat
	}
	fi, err := look(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case fi.Mode().Type() == fs.ModeSymlink:
		if a.Size != nil || a.Mode != nil {
			err = rules.ErrLinkAttr
		}
		return cmp.Or(err, d.linkTarget(name).change(store.Attr{UID: a.UID, GID: a.GID, AccessTime: a.AccessTime, ModTime: a.ModTime}))
	case (a.Mode != nil || a.ChangesOwner()) && !d.Native && d.isRoot(fi):
		err = rules.ErrRoot
		a.Mode, a.UID, a.GID = nil, nil, nil
	}
	return cmp.Or(err, d.pathTarget(ctx, name).change(a))
}

// pathTarget returns the target for the file or directory that a name leads to. The file is opened
// only to change its size, because it could be a pipe, or a file whose attributes this process may
// change, but which it may not write to.
func (d *Dir) pathTarget(ctx context.Context, name string) target {
	return target{
		calls: &d.calls, special: d.SpecialBits,
		stat: func() (fs.FileInfo, error) { return d.root.Stat(name) },
		truncate: func(size int64) error {
			h, err := d.openFile(ctx, name, store.Access{Write: true})
			if err != nil {
				return err
			}
			err = h.file.Truncate(size)
			if closeErr := h.file.Close(); err == nil {
				err = closeErr
			}
			return err
		},
		chmod:   func(mode fs.FileMode) error { return d.root.Chmod(name, mode) },
		chtimes: func(atime, mtime time.Time) error { return d.root.Chtimes(name, atime, mtime) },
		chown:   func(uid, gid int) error { return d.root.Chown(name, uid, gid) },
	}
}

// linkTarget returns the target for a symbolic link itself, which has only times and an owner.
func (p *pathCalls) linkTarget(name string) target {
	return target{
		calls:   &p.calls,
		chtimes: func(atime, mtime time.Time) error { return p.lutimes(name, atime, mtime) },
		chown:   func(uid, gid int) error { return p.root.Lchown(name, uid, gid) },
	}
}
