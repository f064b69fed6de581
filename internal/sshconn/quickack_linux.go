package sshconn

import (
	"net"
	"syscall"
)

// quickAck returns a function that has the kernel acknowledge at once what has come,
// or nil if c has no socket of its own. It is no setting that lasts: the kernel goes
// back to waiting for something to send along, some 40 ms at the most.
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
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK, 1) // slower without
	}
	return func() { _ = raw.Control(set) }
}
