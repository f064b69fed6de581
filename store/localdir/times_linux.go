package localdir

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timespecs returns two times for utimensat(2). A zero one is left as it is.
func timespecs(atime, mtime time.Time) (ts [2]unix.Timespec, err error) {
	for i, t := range [...]time.Time{atime, mtime} {
		if t.IsZero() {
			ts[i].Nsec = unix.UTIME_OMIT
		} else if ts[i], err = unix.TimeToTimespec(t); err != nil {
			return ts, err
		}
	}
	return ts, nil
}

// futimes sets the times of an open file, whatever its name is by now.
func futimes(f *os.File, atime, mtime time.Time) error {
	ts, err := timespecs(atime, mtime)
	if err != nil {
		return err
	}
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = c.Control(func(fd uintptr) {
		// Without a path it is the descriptor's file. Package unix has no
		// way to say that.
		_, _, errno = unix.Syscall6(unix.SYS_UTIMENSAT, fd, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	})
	if err == nil && errno != 0 {
		err = os.NewSyscallError("utimensat", errno)
	}
	return err
}
