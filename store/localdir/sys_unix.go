//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package localdir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// syncDir makes the names in dir durable, unless this user may write to dir and not read
// it: then there is no way to ask for that.
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
		return nil // a file system that has no such thing to ask for
	}
	return err
}

// A dirID is what no other existing directory has.
type dirID struct{ device, inode uint64 }

// identify returns the identity of a directory, or false if it cannot be found out.
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

// isNoSpace reports whether err says that the file system has no room. That it cannot hold
// so large a file says nothing of others.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isBadName reports whether err says that no file can have such a name.
func isBadName(err error) bool {
	return errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.EILSEQ)
}

// inode returns the number that no other existing file has.
func inode(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino) //nolint:unconvert // narrower on other systems
	}
	return 0
}
