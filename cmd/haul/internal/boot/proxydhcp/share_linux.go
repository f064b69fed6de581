package proxydhcp

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// sharePort opens a raw socket, which gets a copy of each packet to a port, so the program that has
// the port open still gets all packets too. An ordinary socket with SO_REUSEADDR would not do: it
// would take packets that are sent only to this machine, such as renewals of leases, away from that
// program.
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

// setBuffer sets the size of the receive buffer, even beyond the system's maximum if this process
// may do that. Errors are ignored: with a smaller buffer packets may be lost, but machines repeat
// them.
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
