// Package filelock locks files against other processes.
package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// Try locks f without waiting. The lock lasts until this process closes f or exits. Try returns false
// if f is already locked through another handle, and an error if the file system does not support
// locks.
func Try(f *os.File) (bool, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var lockErr error
	err = c.Control(func(fd uintptr) {
		// On Windows, nobody else can access the locked bytes. So lock a byte that is far after the
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
