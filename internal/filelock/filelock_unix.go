//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// Package filelock locks files against other processes.
package filelock

import (
	"os"

	"golang.org/x/sys/unix"
)

// Try locks f without waiting. The lock lasts until this process closes f or exits. Try returns false
// if f is already locked through another open file, even one of this process, and an error if the
// file system does not support locks.
func Try(f *os.File) (bool, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var lockErr error
	err = c.Control(func(fd uintptr) {
		lockErr = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err != nil {
		return false, err
	}
	if lockErr == unix.EWOULDBLOCK {
		return false, nil
	}
	return lockErr == nil, os.NewSyscallError("flock", lockErr)
}
