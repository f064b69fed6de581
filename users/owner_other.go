//go:build !unix

package users

import (
	"io/fs"
	"os"
)

// keepOwner does nothing, because files have no numeric owner on this system.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

func sameOwner(_, _ fs.FileInfo) bool { return true }

// syncDir does nothing, because directories cannot be synchronized on this system.
func syncDir(string) error { return nil }
