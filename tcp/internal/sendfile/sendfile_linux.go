//go:build linux && !haul_portable

package sendfile

import (
	"errors"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/internal/localfs"
)

const (
	// minLook is the least number of bytes of a file for which Send checks whether they are in
	// memory. It is more than the kernel reads ahead. In a smaller range, the kernel may just be
	// reading the bytes.
	minLook = 1 << 20

	// maxRawSend is how many bytes one raw call sends without the scheduler's knowledge: a tenth of
	// a millisecond of work.
	maxRawSend = 1 << 20
)

// A Sender sends a file to a socket with sendfile(2). The scheduler assumes that this call may wait
// for a disk, so the runtime's monitor wakes every 20 us to check, which takes a ninth of the
// processor time of a file. Cached pages are sent by raw system calls instead.
type Sender struct {
	at, upTo int64 // the range of the file that was checked; at is the file's offset
	resident bool  // the whole range is in memory
	where    where // location of the file; set at the first check
	size     int64 // size of the file at that time
}

// where is the location of a file's bytes, as far as it can be known.
type where uint8

const (
	unlooked where = iota
	unknown        // a raw call might wait, even for cached pages
	onDisk         // cached pages are sent without waiting
	inRAM          // all of it is in memory
)

// Send sends at most n bytes from the file's offset, as much as there is room for.
func (s *Sender) Send(out, in, n int) (int, error) {
	if s.at >= s.upTo && n >= minLook {
		s.look(in, n)
	}
	var moved int
	var err error
	if left := s.upTo - s.at; s.resident && left > 0 {
		moved, err = sendFileRaw(out, in, int(min(int64(n), left, maxRawSend)))
	} else {
		moved, err = unix.Sendfile(out, in, nil, n)
	}
	moved = max(moved, 0)
	s.at += int64(moved)
	return moved, err
}

// look checks whether the next n bytes are in memory.
func (s *Sender) look(in, n int) {
	if s.where == unlooked {
		s.where, s.size = whereIs(in)
	}
	s.resident = false
	if s.where == unknown {
		return // another check would find the same
	}
	at, err := unix.Seek(in, 0, unix.SEEK_CUR)
	if err != nil {
		return
	}
	s.at, s.upTo = at, at+int64(n)
	// There are no pages after the end of the file.
	if to := min(s.upTo, s.size); to-at >= minLook {
		s.upTo = to
		s.resident = s.where == inRAM || inMemory(in, at, to)
	}
}

// whereIs returns where a file is, and its size. A network file system, or one served by a program
// (FUSE), may ask its server before it returns cached pages. If the server does not answer, a raw
// call would block the whole process, so raw calls are used only for file systems known not to ask.
// A tmpfs is memory; pages that it has swapped out must be waited for, like any page of this
// process. But the file of a disk in /dev is on a tmpfs too, and its content is not in memory.
func whereIs(fd int) (where, int64) {
	var info unix.Stat_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch {
	case err != nil, flags&unix.O_DIRECT != 0: // O_DIRECT ignores the page cache
		return unknown, 0
	case unix.Fstat(fd, &info) != nil, info.Mode&unix.S_IFMT != unix.S_IFREG:
		return unknown, 0
	}
	switch localfs.Of(fd) {
	case localfs.RAM:
		return inRAM, info.Size
	case localfs.Disk:
		return onDisk, info.Size
	}
	return unknown, 0
}

// inMemory reports whether the bytes of a file from one offset to another are known to
// be in memory. A kernel before 6.5 does not report this. No kernel reports it to a
// process that may not write the file, as that would reveal what others read.
func inMemory(fd int, from, to int64) bool {
	page := int64(os.Getpagesize())
	pages := (to-1)/page - from/page + 1
	var found unix.Cachestat_t
	err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(from), Len: uint64(to - from)}, &found, 0)
	return err == nil && found.Cache >= uint64(pages)
}

// sendFileRaw sends up to n bytes from the file's offset, all of which are in memory.
func sendFileRaw(out, in, n int) (int, error) {
	sent, _, errno := unix.RawSyscall6(unix.SYS_SENDFILE, uintptr(out), uintptr(in), 0, uintptr(n), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sent), nil
}

// IsUnable reports whether an error says that a system call does not support such descriptors.
func IsUnable(err error) bool {
	unable := []syscall.Errno{unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.ENOTSOCK, unix.ESPIPE, unix.EBADF}
	return slices.ContainsFunc(unable, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
