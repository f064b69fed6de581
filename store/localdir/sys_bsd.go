//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package localdir

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
)

// futimes sets the times of an open file, even if it has been renamed, with a precision of a
// microsecond. A zero time leaves the file's time unchanged.
func futimes(f *os.File, atime, mtime time.Time) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if details, ok := store.DetailsOf(fi); ok && atime.IsZero() {
		atime = details.AccessTime
	}
	if mtime.IsZero() {
		mtime = fi.ModTime()
	}
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	tv := []unix.Timeval{unix.NsecToTimeval(atime.UnixNano()), unix.NsecToTimeval(mtime.UnixNano())}
	var timesErr error
	if err := c.Control(func(fd uintptr) { timesErr = unix.Futimes(int(fd), tv) }); err != nil {
		return err
	}
	return os.NewSyscallError("futimes", timesErr)
}
