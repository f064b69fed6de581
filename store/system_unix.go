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

// umask is read once, when the process starts: reading the umask means setting it for a moment,
// which affects files that other goroutines create.
var umask = func() fs.FileMode {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return fs.FileMode(mask)
}()

// UserPerm returns the permission bits that a new file of this process's user gets, after the
// umask. Use it for Create.Perm.
func UserPerm() fs.FileMode { return 0o666 &^ umask }

// Umask returns the permission bits that this process's umask removes from new files.
func Umask() fs.FileMode { return umask }
