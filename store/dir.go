package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/haul-project/haul/internal/tempname"
)

var _ Store = (*DirStore)(nil)

// errOutside answers every name that leads out of the root, so that the answer
// does not reveal what exists there.
var errOutside = fmt.Errorf("%w: leads outside the root", fs.ErrPermission)

// A DirStore is a [Store] in a directory. See [Dir].
type DirStore struct {
	// SpecialBits lets SetAttr set and clear the setuid, setgid and sticky
	// bits. Without it those of directories stay as they are, and files lose
	// theirs. Set it before the store is used.
	SpecialBits bool

	// Path is where the directory is. Set it before the store is used if
	// [LocationOf] is to return where its files are.
	Path string

	// LinksFromRoot follows absolute symbolic links from the store's root, as in a
	// chroot: right for what is served to others as "/". Without it they lead
	// outside. At most 40 links are followed to find what a name means. Set it
	// before the store is used.
	LinksFromRoot bool

	root       dirRoot
	escape     error // what root itself says of names that leave it
	checkpoint int64 // checkpointBytes, but in tests
	makers     makers

	// before is called ahead of each system call that changes something or
	// opens what is read, with its name; an error takes the place of the call.
	// Only tests set it.
	before func(call string) error
}

// Dir returns the store of the files under root, a [Tree]. The caller closes
// root, when done with the store. For a user who may see one directory of a
// larger tree, open that with [os.Root.OpenRoot]: then no link in it leads to
// another's.
//
// No name and no symbolic link leads out of root; one that tries to is an
// [fs.ErrPermission]. Links that stay inside are followed; absolute ones count
// as leading out, unless LinksFromRoot says otherwise. An upload to a link replaces
// the file it refers to.
//
// An upload is a hidden file beside its target, readable by its owner alone,
// until it is committed. Such files cannot be opened or created by name. A
// process that dies leaves them behind: see [DirStore.Sweep]. With
// [Create.Resume] it leaves what the next upload resumes from.
//
// Zeros in an upload become holes in the file, where the file system has such
// a thing: see [DirStore.Create].
//
// Replacing a file takes permission to write to its directory, not to the
// file, and the new file belongs to this process's user.
//
// On Linux the files are [TryReader]s. Everywhere they have the methods of an
// *os.File, such as Seek and SyscallConn, so that net/http can use sendfile.
func Dir(root *os.Root) *DirStore {
	d := &DirStore{checkpoint: checkpointBytes}
	d.root = dirRoot{root, d}
	// The os package does not export this error, but will always give it.
	_, err := root.Lstat("..")
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		d.escape = pe.Err
	}
	return d
}

// Open opens a regular file for reading. Anything else is [ErrNotRegular],
// and is not even opened: to open a device can set it going.
func (d *DirStore) Open(ctx context.Context, name string) (File, error) {
	f, err := d.open(ctx, name)
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	return d.newFile(f, name)
}

func (d *DirStore) open(ctx context.Context, name string) (*os.File, error) {
	fi, err := d.stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	if err := d.hook("open"); err != nil {
		return nil, err
	}
	// The name may have become a pipe by now. Without O_NONBLOCK, opening
	// that would wait for a writer.
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|largeFile, 0)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// checkRegular returns an error unless f is a regular file.
func checkRegular(f *os.File) error {
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = ErrNotRegular
	}
	return err
}

// Stat describes what has the name, following symbolic links.
func (d *DirStore) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := d.stat(ctx, name)
	if err != nil {
		return nil, d.fail("stat", name, err)
	}
	return fi, nil
}

func (d *DirStore) stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := check(ctx, name); err != nil {
		return nil, err
	}
	if isTemp(name) {
		return nil, fs.ErrNotExist
	}
	return d.root.Stat(name)
}

// maxName is the most bytes of a name: Linux's PATH_MAX.
const maxName = 4096

// check returns an error if ctx has ended or name is no name.
func check(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(name) > maxName {
		return fs.ErrInvalid
	}
	if !ValidName(name) {
		return fs.ErrInvalid
	}
	if !localName(name) {
		return errNotLocal
	}
	return nil
}

// errNotLocal says that a name of other systems is none here.
var errNotLocal = fmt.Errorf("%w: this system allows no such name", fs.ErrInvalid)

// hook calls d.before, if a test has set it.
func (d *DirStore) hook(call string) error {
	if d.before == nil {
		return nil
	}
	return d.before(call)
}

// fail says that op failed on name because of err. It leaves out of err what
// the os package said of itself, a path that is no business of the caller.
func (d *DirStore) fail(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: d.classify(reason(err))}
}

// reason returns what the os package wrapped.
func reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	if se, ok := errors.AsType[*os.SyscallError](err); ok {
		return se.Err
	}
	return err
}

// classify gives err one of the kinds the package comment promises.
func (d *DirStore) classify(err error) error {
	switch {
	case d.escape != nil && errors.Is(err, d.escape):
		return errOutside
	case isNoSpace(err):
		return kindError{err, ErrNoSpace}
	case errors.Is(err, syscall.EROFS):
		return kindError{err, fs.ErrPermission}
	case errors.Is(err, syscall.ENOTDIR): // "a/b" where a is a file
		return kindError{err, fs.ErrNotExist}
	case isBadName(err):
		return kindError{err, fs.ErrInvalid}
	}
	return err
}

// isTemp reports whether the last element of name is that of an upload under way, or
// might be for a file system.
func isTemp(name string) bool {
	return tempname.May(name, tempname.Part, tempname.Keep, tempname.Mark)
}
