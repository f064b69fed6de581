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

// userPerm is found at the start, since to read the umask is to set it, for
// all goroutines.
var userPerm = func() fs.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return 0o666 &^ fs.FileMode(mask)
}()

// UserPerm returns the permission bits that a new file of this process's user
// has by the umask, for Create.Perm.
func UserPerm() fs.FileMode { return userPerm }
