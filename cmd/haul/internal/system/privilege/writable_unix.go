//go:build unix

package privilege

import "golang.org/x/sys/unix"

// CheckWritable returns an error if this process cannot add files to a directory.
func CheckWritable(dir string) error {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
}
