//go:build !unix

package users

import (
	"io/fs"
	"os"
)

// keepOwner does nothing where files are owned in another way.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

// syncDir does nothing where directories cannot be synchronized.
func syncDir(string) error { return nil }
