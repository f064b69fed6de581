//go:build unix

package privilege

import "golang.org/x/sys/unix"

// CheckWritable says why this process may not add files to a directory, or returns nil.
func CheckWritable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
