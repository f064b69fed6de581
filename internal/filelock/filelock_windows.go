// Package filelock locks files against other processes.
package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// Try locks f. The lock ends when this process closes f or dies. Try returns false if f is locked
// through another handle, and an error if the file system does not support locks.
func Try(f *os.File) (bool, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var lockErr error
	err = c.Control(func(fd uintptr) {
		// Windows prevents others from accessing the locked bytes, so lock a byte far beyond the
		// end of any file.
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
