//go:build unix && (!linux || haul_portable)

package udp

import "syscall"

// receiveBuffer returns the size of a socket's receive buffer in bytes.
func receiveBuffer(fd uintptr) (int, error) {
	return syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
}

// truncated reports whether a receive has cut off a datagram that was longer than its buffer. Unix
// reports that in flags.
func truncated(flags int, _ error) bool { return flags&syscall.MSG_TRUNC != 0 }
