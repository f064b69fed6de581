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

// umask is read once at the start, because the only way to read it is to set it, and that affects
// all goroutines.
var umask = func() fs.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return fs.FileMode(mask)
}()

// UserPerm returns the permission bits, after the umask, of a new file of this process's user, for
// Create.Perm.
func UserPerm() fs.FileMode { return 0o666 &^ umask }

// Umask returns the permission bits that the umask removes from new files of this process.
func Umask() fs.FileMode { return umask }
