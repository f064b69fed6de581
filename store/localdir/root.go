package localdir

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/haul-project/haul/store"
)

// A directory is an open directory in which names can be looked up, such as an [os.Root].
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

// A root is the directory of a store, with all the operations on names that the store needs.
type root interface {
	directory
	OpenRoot(name string) (*os.Root, error)
	Mkdir(name string, perm fs.FileMode) error
	Symlink(target, name string) error
	Chmod(name string, mode fs.FileMode) error
	Chown(name string, uid, gid int) error
	Lchown(name string, uid, gid int) error
	Chtimes(name string, atime, mtime time.Time) error

	directory(name string) (directory, error) // opens a directory to look up names in it
	// bare returns the same directory in a form that does not follow absolute links.
	bare() directory
}

// A dirRoot is a directory that no name leads out of. If the store's LinksFromRoot is set, it
// follows absolute symbolic links too.
//
// An [os.Root] refuses absolute links. After such an error, dirRoot rewrites the name to one
// without links, and passes that to the os.Root. Even if directories or links change meanwhile, the
// os.Root checks each step, so no name leads out of it.
type dirRoot struct {
	*os.Root
	store *Dir
}

// pathCalls has the operations on names in a directory. Each operation is atomic if the system
// supports that.
type pathCalls struct {
	calls
	root root
}

// fileFlags are flags for opening a regular file. O_NONBLOCK has no effect on such files, but saves
// four system calls: without it, the os package would set it to try Go's poller, which does not
// support regular files, and clear it again.
const fileFlags = syscall.O_NONBLOCK | largeFile

// openRegular opens the file of that name in dir, and returns an error unless it is a regular file.
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

// statRegular describes f, and returns an error unless f is a regular file.
func statRegular(f *os.File) (fs.FileInfo, error) {
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = store.ErrNotRegular
	}
	return fi, err
}
