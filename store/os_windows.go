package store

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// tryLock locks f until it is closed, by this process or by its death. It
// reports false if f is locked through another handle, and fails if the file
// system has no locks.
func tryLock(f *os.File) (bool, error) {
	c, err := f.SyscallConn()
	if err != nil {
		return false, err
	}
	var lockErr error
	err = c.Control(func(fd uintptr) {
		// Windows forbids others to touch the bytes that are locked, so lock
		// one that no file has.
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

// syncDir does nothing: Windows journals names and has no call to wait for it.
func syncDir(*os.Root) error { return nil }

// isNoSpace reports whether err says that the file system has no room.
func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, syscall.ENOSPC)
}

// isBadName reports whether err says that no file can have such a name.
func isBadName(err error) bool {
	return errors.Is(err, windows.ERROR_INVALID_NAME) || errors.Is(err, windows.ERROR_FILENAME_EXCED_RANGE) ||
		errors.Is(err, syscall.ENAMETOOLONG)
}
