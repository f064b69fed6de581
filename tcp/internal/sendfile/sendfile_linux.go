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
	// minLook is the smallest range of a file for which Send checks whether it is in memory. It is
	// larger than what the kernel reads ahead: a smaller range may count as in memory while the
	// kernel is still reading it.
	minLook = 1 << 20

	// maxRawSend is how many bytes one raw system call sends: a tenth of a millisecond of work. The
	// scheduler does not know of such a call, so it must be short.
	maxRawSend = 1 << 20
)

// A Sender sends a file to a socket with sendfile(2). For a normal system call, the scheduler
// assumes that it may wait for a disk, so the runtime's monitor wakes every 20 us to check. That takes
// a ninth of the processor time of sending a file. A Sender therefore sends pages that are in memory
// with raw system calls.
type Sender struct {
	at, upTo int64 // the range of the file that the last call of `look` set; `at` moves with the file's offset
	resident bool  // the whole range is in memory
	where    where // where the file's bytes are; determined at the first check
	size     int64 // the file's size at the first check
}

// A where says where a file's bytes are, as far as that can be known.
type where uint8

const (
	unlooked where = iota
	unknown        // a raw system call might have to wait, even for pages that are in memory
	onDisk         // a raw system call sends pages that are in memory without waiting
	inRAM          // the whole file is in memory
)

// Send sends at most n bytes from the file's offset, as many as the socket has room for.
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

// look determines how many of the next n bytes to check, and whether they are in memory.
func (s *Sender) look(in, n int) {
	if s.where == unlooked {
		s.where, s.size = whereIs(in)
	}
	s.resident = false
	if s.where == unknown {
		return // another check would have the same result
	}
	at, err := unix.Seek(in, 0, unix.SEEK_CUR)
	if err != nil {
		return
	}
	s.at, s.upTo = at, at+int64(n)
	// Pages exist only up to the end of the file, so the range ends there.
	if to := min(s.upTo, s.size); to-at >= minLook {
		s.upTo = to
		s.resident = s.where == inRAM || inMemory(in, at, to)
	}
}

// whereIs returns where a file's bytes are, and its size. A network file system, or one that a
// program serves (FUSE), may ask its server even before it returns pages that are in memory. If
// that server did not answer, a raw system call would block the whole process. So raw calls are
// used only for file systems that are known not to ask. A tmpfs is memory; its pages may be swapped
// out, but so may any page of this process. The device file of a disk in /dev is on a tmpfs too,
// although its content is not in memory, so only regular files are accepted.
func whereIs(fd int) (where, int64) {
	var info unix.Stat_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch {
	case err != nil, flags&unix.O_DIRECT != 0: // with O_DIRECT the page cache is not used
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

// inMemory reports whether the bytes of a file between two offsets are known to be in memory. It
// returns false if the kernel does not say: kernels before 6.5 never do, and later ones do not if
// the process may not write the file, because that would reveal what others read.
func inMemory(fd int, from, to int64) bool {
	page := int64(os.Getpagesize())
	pages := (to-1)/page - from/page + 1
	var found unix.Cachestat_t
	err := unix.Cachestat(uint(fd), &unix.CachestatRange{Off: uint64(from), Len: uint64(to - from)}, &found, 0)
	return err == nil && found.Cache >= uint64(pages)
}

// sendFileRaw sends at most n bytes from the file's offset. All of them must be in memory.
func sendFileRaw(out, in, n int) (int, error) {
	sent, _, errno := unix.RawSyscall6(unix.SYS_SENDFILE, uintptr(out), uintptr(in), 0, uintptr(n), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(sent), nil
}

// IsUnable reports whether err, from a system call that copies bytes, says that the call does not
// work with its kinds of descriptors.
func IsUnable(err error) bool {
	unable := []syscall.Errno{unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.ENOTSOCK, unix.ESPIPE, unix.EBADF}
	return slices.ContainsFunc(unable, func(e syscall.Errno) bool { return errors.Is(err, e) })
}
