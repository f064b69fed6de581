package proxydhcp

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// sharePort opens a raw socket, which gets a copy of each packet for a port. The program that owns
// the port still gets all of these packets. A socket with SO_REUSEADDR would take the packets that
// are sent to this machine alone, such as renewals of leases, from that program.
func sharePort(port uint16) (*socket, error) {
	c, err := net.ListenPacket("ip4:udp", "0.0.0.0")
	if err != nil {
		return nil, fmt.Errorf("another program uses it, and sharing it requires a raw socket: %w", err)
	}
	s, err := newSocket(c, port, true)
	if err != nil {
		return nil, err
	}
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadMemShift{Off: 0}, // the length of the IP header
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(port), SkipFalse: 1},
		bpf.RetConstant{Val: maxPacket},
		bpf.RetConstant{Val: 0},
	})
	if err == nil {
		err = s.conn.SetBPF(filter)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("another program uses it, and sharing it requires a packet filter: %w", err)
	}
	return s, nil
}

// setBuffer requests a receive buffer, larger than the system's maximum if that is allowed. It
// ignores errors, because with a smaller buffer packets may be lost, but machines send them again.
func setBuffer(c syscall.Conn, set func(int) error) {
	failed := syscall.EPERM
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			failed, _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer).(syscall.Errno)
		})
	}
	if failed != 0 {
		_ = set(receiveBuffer)
	}
}
