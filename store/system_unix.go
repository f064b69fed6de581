//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package store

import (
	"io/fs"
	"syscall"
	"time"
)

func systemDetails(fi fs.FileInfo) (Details, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return Details{}, false
	}
	return Details{
		UID: st.Uid, GID: st.Gid,
		Links:      uint64(st.Nlink), //nolint:unconvert // narrower on other systems
		AccessTime: time.Unix(accessTime(st).Unix()),
	}, true
}

// umask is found at the start, since to read it is to set it, for all goroutines.
var umask = func() fs.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return fs.FileMode(mask)
}()

// UserPerm returns the permission bits that a new file of this process's user
// has by the umask, for Create.Perm.
func UserPerm() fs.FileMode { return 0o666 &^ umask }

// Umask returns the bits that new files of this process's user do not get.
func Umask() fs.FileMode { return umask }
