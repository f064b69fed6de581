package localdir

import (
	"os"
	"syscall"
	"time"
)

// futimes sets the times of an open file, whatever its name is by now. A zero
// one is left as it is.
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
