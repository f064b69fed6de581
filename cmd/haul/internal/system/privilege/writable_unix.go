//go:build unix

package privilege

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckWritable returns an error if this process cannot add files to a directory.
func CheckWritable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

// ownerOf returns the owner of a file, and the number of its hard links.
func ownerOf(info fs.FileInfo) (uid int, names uint64, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), uint64(st.Nlink), true //nolint:unconvert // of another size elsewhere
}
