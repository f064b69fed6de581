//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package store

import "io/fs"

func systemDetails(fs.FileInfo) (Details, bool) { return Details{}, false }

// UserPerm returns 0o666, the permission bits that programs request for a new file. Use it for
// Create.Perm.
func UserPerm() fs.FileMode { return 0o666 }

// Umask returns 0, because this system has no umask.
func Umask() fs.FileMode { return 0 }
