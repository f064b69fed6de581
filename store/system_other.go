//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import "io/fs"

func systemDetails(fs.FileInfo) (Details, bool) { return Details{}, false }

// UserPerm returns the permission bits that a new file of this process's user
// has, for Create.Perm.
func UserPerm() fs.FileMode { return 0o666 }

// Umask returns the bits that new files of this process's user do not get: none.
func Umask() fs.FileMode { return 0 }
