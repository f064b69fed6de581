//go:build unix

package privilege

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckWritable says why this process may not add files to a directory, or returns nil.
func CheckWritable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}

// isRoots reports whether something is root's, by this name alone if it is a file.
func isRoots(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Uid == 0 && (info.IsDir() || st.Nlink == 1)
}
