package localdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes durable what was written to f, and its size.
func datasync(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = c.Control(func(fd uintptr) {
		for syncErr = unix.EINTR; syncErr == unix.EINTR; {
			syncErr = unix.Fdatasync(int(fd))
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", syncErr)
}
