//go:build unix

package users

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/haul-project/haul/internal/ownfile"
)

// keepOwner sets the owner and the group of a file to those of the file that it will replace.
func keepOwner(f *os.File, old fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	was, ok := old.Sys().(*syscall.Stat_t)
	is, ok2 := info.Sys().(*syscall.Stat_t)
	if !ok || !ok2 || was.Uid == is.Uid && was.Gid == is.Gid {
		return nil
	}
	if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
		return fmt.Errorf("keep the file's owner: %w", err)
	}
	return nil
}

// sameOwner reports whether two files belong to the same user.
func sameOwner(a, b fs.FileInfo) bool {
	x, _, _ := ownfile.OwnerOf(a)
	y, _, _ := ownfile.OwnerOf(b)
	return x == y
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
