// Package filelock locks files against other processes.
package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// Try locks f until it is closed, by this process or when the process dies. It returns false if f
// is locked through another handle, and an error if the file system has no locks.
func Try(f *os.File) (bool, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var lockErr error
	err = c.Control(func(fd uintptr) {
		// Windows prevents others from accessing the locked bytes, so lock a byte that no file
		// has.
		far := &windows.Overlapped{OffsetHigh: 1<<31 - 1}
		const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
		lockErr = windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, far)
	})
	if err != nil {
		return false, err
	}
	if lockErr == windows.ERROR_LOCK_VIOLATION || lockErr == windows.ERROR_IO_PENDING {
		return false, nil
	}
	return lockErr == nil, os.NewSyscallError("LockFileEx", lockErr)
}
