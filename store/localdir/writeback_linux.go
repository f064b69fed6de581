package localdir

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback has the kernel begin to write what it holds of f. It waits only
// where the device's queue is full.
func startWriteback(f *os.File) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = c.Control(func(fd uintptr) { syncErr = unix.SyncFileRange(int(fd), 0, 0, unix.SYNC_FILE_RANGE_WRITE) })
	if err != nil {
		return err
	}
	return os.NewSyscallError("sync_file_range", syncErr)
}
