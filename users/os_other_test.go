//go:build !unix

package users_test

import (
	"errors"
	"io/fs"
)

func mkfifo(string) error { return errors.ErrUnsupported }

func owner(fs.FileInfo) (uid, gid uint32) { return 0, 0 }
