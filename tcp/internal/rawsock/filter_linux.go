//go:build linux && !haul_portable

package rawsock

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flagsAt is the offset of the flags in the TCP header, where the input of a filter begins. flagSYN
// and flagACK are bits of the flags.
const flagsAt, flagSYN, flagACK = 13, 0x02, 0x10

// noSYN is a filter that drops packets that begin a connection: those with SYN and without ACK (RFC
// 9293, section 3.5).
var noSYN = [...]unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flagsAt},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: flagSYN | flagACK},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: flagSYN, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

// DropSYN makes the kernel drop packets that begin a connection. Its errors are ignored: without
// the filter, a few clients may be reset.
func DropSYN(c syscall.RawConn) {
	filter := noSYN
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_ = c.Control(func(fd uintptr) {
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &p)
	})
}

// TakeSYN removes the filter of DropSYN, even if another process set it and was killed before it
// could remove it. It does not remove other filters.
func TakeSYN(c syscall.RawConn) {
	_ = c.Control(func(fd uintptr) {
		var filter [len(noSYN) + 1]unix.SockFilter
		n := uint32(len(filter)) // the kernel counts filter instructions here, not bytes
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_GET_FILTER,
			uintptr(unsafe.Pointer(&filter[0])), uintptr(unsafe.Pointer(&n)), 0)
		if errno == 0 && n == uint32(len(noSYN)) && [len(noSYN)]unix.SockFilter(filter[:n]) == noSYN {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		}
	})
}
