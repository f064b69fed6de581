//go:build linux && !haul_portable

package rawsock

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flagsAt is the offset of the flags in the TCP header, which is the input of a filter. The others
// are two of the flags.
const flagsAt, flagSYN, flagACK = 13, 0x02, 0x10

// noSYN drops packets that begin a connection (RFC 9293, section 3.5): those with SYN
// and without ACK.
var noSYN = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flagsAt},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: flagSYN | flagACK},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: flagSYN, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

// DropSYN makes the kernel drop packets that begin a connection. If that fails, a few clients may
// be reset.
func DropSYN(c syscall.RawConn) {
	filter := noSYN
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &p)
	})
}

// TakeSYN undoes DropSYN, even if the process that called DropSYN was killed before it could undo
// it. It keeps other filters.
func TakeSYN(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) {
		var filter [len(noSYN) + 1]unix.SockFilter
		n := uint32(len(filter)) // filters, not bytes
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_GET_FILTER,
			uintptr(unsafe.Pointer(&filter[0])), uintptr(unsafe.Pointer(&n)), 0)
		if errno == 0 && n == uint32(len(noSYN)) && [len(noSYN)]unix.SockFilter(filter[:n]) == noSYN {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		}
	})
}
