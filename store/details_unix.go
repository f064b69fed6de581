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

// inode returns the number that no other existing file has.
func inode(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino) //nolint:unconvert // narrower on other systems
	}
	return 0
}
