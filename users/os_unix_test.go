//go:build unix

package users_test

import (
	"io/fs"
	"syscall"
)

func mkfifo(name string) error { return syscall.Mkfifo(name, 0o600) }

func owner(info fs.FileInfo) (uid, gid uint32) {
	s := info.Sys().(*syscall.Stat_t)
	return s.Uid, s.Gid
}
