package udp

import (
	"errors"
	"syscall"
)

// receiveBuffer returns the size of a socket's receive buffer in bytes.
func receiveBuffer(fd uintptr) (int, error) {
	return syscall.GetsockoptInt(syscall.Handle(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
}

// truncated reports whether a receive has cut off a datagram that was longer than its buffer.
// Windows reports that in err.
func truncated(_ int, err error) bool {
	const tooLong = syscall.Errno(10040) // WSAEMSGSIZE
	return errors.Is(err, tooLong)
}
