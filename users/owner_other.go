//go:build !unix

package users

import (
	"io/fs"
	"os"
)

// keepOwner does nothing where files are owned in another way.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

// ownerOf does not know where files are owned in another way.
func ownerOf(fs.FileInfo) (uid int, ok bool) { return 0, false }

func sameOwner(_, _ fs.FileInfo) bool { return true }

// syncDir does nothing where directories cannot be synchronized.
func syncDir(string) error { return nil }
