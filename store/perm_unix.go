//go:build unix

package store

import (
	"io/fs"
	"syscall"
)

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
