package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve sets size bytes of disk aside for f, if the file system can.
func reserve(f *os.File, size int64) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var allocErr error
	err = c.Control(func(fd uintptr) {
		for allocErr = unix.EINTR; allocErr == unix.EINTR; {
			allocErr = unix.Fallocate(int(fd), 0, 0, size)
		}
	})
	if err != nil {
		return err
	}
	if allocErr == unix.EOPNOTSUPP || allocErr == unix.ENOSYS {
		return nil
	}
	return os.NewSyscallError("fallocate", allocErr)
}
