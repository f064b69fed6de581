package privilege

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// installFilter sets a system call filter for all threads of the process.
func installFilter(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: unsafe.SliceData(filter)}
	const (
		setModeFilter = 1 // SECCOMP_SET_MODE_FILTER
		threadSync    = 1 // SECCOMP_FILTER_FLAG_TSYNC, which sets no_new_privs too
	)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, setModeFilter, threadSync, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
