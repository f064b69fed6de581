package localdir

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"

	"github.com/haul-project/haul/store"
)

// syncDir does nothing: Windows journals changes of names, and has no call to wait for that.
func syncDir(directory) error { return nil }

// A dirID identifies an existing directory.
type dirID struct{}

// identify returns false: directories are not synced here, so they need no identity.
func identify(directory) (dirID, bool) { return dirID{}, false }

// isNoSpace reports whether err means that the file system is full.
func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, syscall.ENOSPC)
}

// isBadName reports whether err means that no file can have such a name.
func isBadName(err error) bool {
	return errors.Is(err, windows.ERROR_INVALID_NAME) || errors.Is(err, windows.ERROR_FILENAME_EXCED_RANGE) ||
		errors.Is(err, syscall.ENAMETOOLONG)
}

// inode returns 0: a FileInfo has no inode number on this system.
func inode(fs.FileInfo) uint64 { return 0 }

// futimes sets the times of an open file, even if it has been renamed. A zero time leaves the
// file's time unchanged.
func futimes(f *os.File, atime, mtime time.Time) error {
	filetime := func(t time.Time) *syscall.Filetime {
		if t.IsZero() {
			return nil
		}
		ft := syscall.NsecToFiletime(t.UnixNano())
		return &ft
	}
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var timesErr error
	err = c.Control(func(fd uintptr) {
		timesErr = syscall.SetFileTime(syscall.Handle(fd), nil, filetime(atime), filetime(mtime))
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("SetFileTime", timesErr)
}

// birth returns a value that distinguishes the file of that name from earlier files with the same
// inode number.
func (d *Dir) birth(name string) store.Birth {
	fi, err := d.root.Lstat(name)
	if err != nil {
		return store.Birth{}
	}
	data, ok := fi.Sys().(*syscall.Win32FileAttributeData)
	if !ok {
		return store.Birth{}
	}
	return store.Birth{At: data.CreationTime.Nanoseconds()}
}
