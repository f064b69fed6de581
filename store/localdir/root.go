package localdir

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/haul-project/haul/store"
)

// A directory looks names up. An [os.Root] is one.
type directory interface {
	Name() string
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Readlink(name string) (string, error)
	Rename(from, to string) error
	Link(from, to string) error
	Remove(name string) error
	Close() error
}

// A root is the directory of a store.
type root interface {
	directory
	OpenRoot(name string) (*os.Root, error)
	Mkdir(name string, perm fs.FileMode) error
	Symlink(target, name string) error
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Lchown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error

	directory(name string) (directory, error) // opens a directory, for looking up names in it
	bare() directory                          // the same directory, but does not follow absolute links
}

// A dirRoot is a directory that no name leads out of. With LinksFromRoot it also follows absolute
// symbolic links.
//
// An [os.Root] refuses such links. Then dirRoot rewrites the name to one without links, and passes
// that to the root again. Even if elements change meanwhile, the root itself checks each step, so
// no name leads out of it.
type dirRoot struct {
	*os.Root
	store *Dir
}

// pathCalls has the operations on names in a directory, each in one step where the system supports
// that.
type pathCalls struct {
	calls
	root root
}

// fileFlags are flags for opening a regular file. O_NONBLOCK has no effect on such files, but saves
// four system calls: without it, the os package sets it for Go's poller, which does not support
// such files, and clears it again.
const fileFlags = syscall.O_NONBLOCK | largeFile

// openRegular opens a temporary file, and returns an error for anything else of that name.
func openRegular(dir directory, name string, flags int) (*os.File, error) {
	fi, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, store.ErrNotRegular
	}
	f, err := dir.OpenFile(name, flags|fileFlags, 0)
	if err != nil {
		return nil, err
	}
	if _, err := statRegular(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// statRegular describes f. It returns an error if f is not a regular file.
func statRegular(f *os.File) (fs.FileInfo, error) {
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = store.ErrNotRegular
	}
	return fi, err
}
