//go:build linux || darwin || freebsd

package treecopy

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// nextData returns the first part of a file, from off on, that is not a hole. If only a hole
// follows, both results are size. If the file system cannot find holes, nextData returns the whole
// rest of the file.
func nextData(raw syscall.RawConn, off, size int64) (from, to int64) {
	from, to = off, size
	_ = raw.Control(func(fd uintptr) {
		start, err := unix.Seek(int(fd), off, unix.SEEK_DATA)
		if err == unix.ENXIO {
			from = size
			return
		}
		if err != nil || start < off {
			return
		}
		from = min(start, size)
		if end, err := unix.Seek(int(fd), start, unix.SEEK_HOLE); err == nil && end > start {
			to = min(end, size)
		}
	})
	return from, to
}
