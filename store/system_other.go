//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import "io/fs"

func systemDetails(fs.FileInfo) (Details, bool) { return Details{}, false }

// UserPerm returns the permission bits of a new file of this process's user, for Create.Perm.
func UserPerm() fs.FileMode { return 0o666 }

// Umask returns 0: this system has no umask.
func Umask() fs.FileMode { return 0 }
