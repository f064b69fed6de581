package udp

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// FromFile makes a Conn of a socket that another program has bound, such as one that systemd passed
// to this process. The socket must be an unconnected UDP socket for IPv4 or IPv6, bound to a port.
// Whether an IPv6 socket also serves IPv4 depends on how it was bound.
//
// The Conn has its own descriptor: the caller must still close f, and may do so at once. Buffers
// and offloads are set as by [Listen]. Read also returns datagrams that arrived before FromFile was
// called, but the kernel may not report their [Message.Local]. With [Config.ReusePort] the socket
// must have been bound with SO_REUSEPORT (ReusePort=yes in a systemd unit).
func FromFile(f *os.File, c Config) (*Conn, error) {
	conn, err := fromFile(f, c)
	if err != nil {
		return nil, fmt.Errorf("adopt socket %s: %w", f.Name(), err)
	}
	return conn, nil
}

// File returns a duplicate of the socket's descriptor, which another process can use with
// [FromFile]. The caller closes it. Both descriptors are the same socket: each datagram is received
// by the process that reads first, so only one of the two processes should read. On Windows, the
// error wraps [errors.ErrUnsupported].
func (c *Conn) File() (*os.File, error) {
	f, err := c.duplicate()
	if err != nil {
		return nil, fmt.Errorf("duplicate the socket of %v: %w", c.local, err)
	}
	return f, nil
}

func fromFile(f *os.File, c Config) (*Conn, error) {
	if c.ReusePort && !CanSharePort {
		return nil, fmt.Errorf("sharing a port: %w", errors.ErrUnsupported)
	}
	pc, err := net.FilePacketConn(f) // FilePacketConn asks the kernel for the type of the socket
	if err != nil {
		return nil, fmt.Errorf("not a datagram socket: %w", err)
	}
	socket, ok := pc.(*net.UDPConn)
	if !ok {
		pc.Close()
		return nil, fmt.Errorf("a socket of network %q, not UDP", pc.LocalAddr().Network())
	}
	conn, err := adopt(socket, c)
	if err != nil {
		socket.Close()
		return nil, err
	}
	return conn, nil
}

// adopt returns a Conn for an open, bound socket.
func adopt(socket *net.UDPConn, c Config) (*Conn, error) {
	local, ok := socket.LocalAddr().(*net.UDPAddr)
	switch {
	case !ok || local.Port == 0:
		return nil, errors.New("not bound to a port")
	case socket.RemoteAddr() != nil:
		return nil, fmt.Errorf("connected to %v; a server's socket must not be", socket.RemoteAddr())
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	if err := setOptionsBound(raw, c); err != nil {
		return nil, err
	}
	return newConn(socket, c)
}
