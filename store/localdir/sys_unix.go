//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localdir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// syncDir makes the names in dir durable. If this user may write to dir but not read it, it does
// nothing, because such a directory cannot be synced.
func syncDir(dir directory) error {
	f, err := dir.OpenFile(".", os.O_RDONLY|fileFlags, 0)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // the file system does not support syncing directories
	}
	return err
}

// A dirID identifies an existing directory.
type dirID struct{ device, inode uint64 }

// identify returns the identity of a directory, or false if it is not available.
func identify(dir directory) (dirID, bool) {
	fi, err := dir.Stat(".")
	if err != nil {
		return dirID{}, false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return dirID{}, false
	}
	return dirID{uint64(st.Dev), uint64(st.Ino)}, true //nolint:unconvert // other types on other systems
}

// isNoSpace reports whether err says that the file system has no room. An error that a file is too
// large (EFBIG) does not count, as other files may still fit.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isBadName reports whether err says that no file can have such a name.
func isBadName(err error) bool {
	return errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EILSEQ)
}

// inode returns the inode number, which no other existing file of the same file system has.
func inode(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino) //nolint:unconvert // narrower on other systems
	}
	return 0
}
