//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localdir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// syncDir makes the names in dir durable. If the user may write to dir but not read it, dir cannot
// be opened to be synced, and syncDir does nothing.
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

// identify returns the identity of a directory, or false if the system does not provide one.
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

// isNoSpace reports whether err means that the file system is full. EFBIG, which means that one
// file is too large, does not count, as other files may still fit.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isBadName reports whether err means that no file can have such a name.
func isBadName(err error) bool {
	return errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EILSEQ)
}

// inode returns the file's inode number, which no other existing file of the same file system has.
// It returns 0 if fi does not contain one.
func inode(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino) //nolint:unconvert // narrower on other systems
	}
	return 0
}
