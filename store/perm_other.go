//go:build !unix

package store

import "io/fs"

// UserPerm returns the permission bits that a new file of this process's user
// has, for Create.Perm.
func UserPerm() fs.FileMode { return 0o666 }
