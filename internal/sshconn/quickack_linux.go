package sshconn

import (
	"net"
	"syscall"
)

// quickAck returns a function that makes the kernel acknowledge received data at once, or nil if c is
// not a socket. The function has to be called again and again, because the kernel soon returns to
// delayed acknowledgements, which wait up to some 40 ms for data to send.
func quickAck(c net.Conn) func() {
	s, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	set := func(fd uintptr) {
		// If this fails, the connection is only slower.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1)
	}
	return func() { _ = raw.Control(set) }
}
