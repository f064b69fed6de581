package localdir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

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

// inode returns nothing: the system has no such number at hand.
func inode(fs.FileInfo) uint64 { return 0 }
