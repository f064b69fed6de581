package udp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// A Conn is an unconnected UDP socket. Only one goroutine at a time may call Read; the other
// methods may be called concurrently.
type Conn struct {
	socket *net.UDPConn // the socket; nil if an ownPoll has taken it over
	closer io.Closer    // closes the socket: socket itself, or an ownPoll
	local  netip.AddrPort
	pause  pause
	in     receiver
	out    sender
	most   Limits // the limits at the start; Segments may have fallen since: see the method Limits
}

// Listen opens a socket bound to addr. With port 0 the kernel chooses a port. The zero netip.Addr
// means all addresses of IPv4 and IPv6, or of IPv4 alone if the system has no IPv6. "0.0.0.0" means
// all IPv4 addresses, and "::" all IPv6 addresses.
//
// The errors wrap those of the kernel, such as syscall.EADDRINUSE and syscall.EACCES.
func Listen(ctx context.Context, addr netip.AddrPort, c Config) (*Conn, error) {
	if c.ReusePort && !CanSharePort {
		return nil, fmt.Errorf("listen on %v: sharing a port: %w", addr, errors.ErrUnsupported)
	}
	if err := ctx.Err(); err != nil {
		// ctx is checked here, because package net checks it only when it looks up a name.
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	lc := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) error {
		return control(network, raw, addr.Addr(), c)
	}}
	network, address := target(addr)
	pc, err := lc.ListenPacket(ctx, network, address)
	if err != nil {
		return nil, err // the message is complete, for example "listen udp4 192.0.2.1:69: bind: permission denied"
	}
	conn, err := newConn(pc.(*net.UDPConn), c)
	if err != nil {
		pc.Close()
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	return conn, nil
}

// newConn returns a Conn for a socket that is bound and whose options are set.
func newConn(socket *net.UDPConn, c Config) (*Conn, error) {
	conn := &Conn{socket: socket, closer: socket, local: unmapped(socket.LocalAddr().(*net.UDPAddr).AddrPort())}
	conn.pause.socket = socket
	if err := conn.start(c); err != nil {
		return nil, err
	}
	return conn, nil
}

// target returns the arguments with which package net listens on addr. For the zero netip.Addr,
// package net opens one socket for IPv4 and IPv6, or for only one of them if the system lacks the
// other.
func target(addr netip.AddrPort) (network, address string) {
	addr = unmapped(addr)
	switch {
	case !addr.Addr().IsValid():
		return "udp", fmt.Sprintf(":%d", addr.Port())
	case addr.Addr().Is4():
		return "udp4", addr.String()
	default:
		return "udp6", addr.String()
	}
}

// Read waits for datagrams and stores them in ms, beginning with ms[0]. It returns their number,
// which is 0 without an error if the deadline passes, if Wake is called, and sometimes for no
// reason. A zero deadline never passes. With a deadline in the past, Read does not wait.
//
// Read drops a datagram that is longer than the Data of its message. To fill the gap it may swap
// the Data of messages, so the caller must not expect its buffers to stay in the same elements of
// ms.
//
// The error wraps net.ErrClosed once the Conn is closed. With [Config.Refusals], it may be a
// *net.OpError that wraps syscall.ECONNREFUSED: the host of a peer has answered that the port is
// closed. The Addr of such an error is that peer, and the Conn keeps working. Read returns such an
// error only when all received datagrams have been read, and it does not return reports of other
// delivery failures.
func (c *Conn) Read(ms []Message, deadline time.Time) (int, error) {
	if len(ms) == 0 {
		return 0, nil
	}
	return c.in.receive(ms, deadline)
}

// Write sends ms in order, and returns the number n of messages that it has sent. An error concerns
// only ms[n]. Some datagrams of that message may have been sent; the caller may skip the message
// and continue. Datagrams that are larger than the path's MTU are sent in fragments.
//
// A message with more datagrams than [Limits.Segments] is sent in several parts. If the kernel
// cannot split a message into datagrams, because the device is not able to or because a segment is
// larger than the path's MTU, Write splits it.
//
// While the kernel's send buffer is full, Write waits, but for at most 100 ms. Then it returns an
// error that wraps os.ErrDeadlineExceeded. After such an error, Write does not wait again before
// the kernel has accepted a datagram.
func (c *Conn) Write(ms []Message) (int, error) {
	return c.out.send(ms)
}

// maxStall is the longest time for which Write waits for room in the kernel's send buffer. At 100
// Mb/s, a buffer of 1 MiB drains in that time. If Write waited longer, a loop would miss its other
// deadlines, so it is better to treat the datagram as lost.
const maxStall = 100 * time.Millisecond

// Wake makes a waiting Read return at once. If no Read waits, the next Read that would wait returns
// instead. Several calls of Wake before that have the effect of one.
func (c *Conn) Wake() { c.pause.wake() }

// Limits returns how much one call can move. The field Segments may fall to 1 while c is in use.
func (c *Conn) Limits() Limits {
	now := c.most
	now.Segments = c.out.limit()
	return now
}

// LocalAddr returns the address that c is bound to. For a socket that serves both IPv4 and IPv6,
// its IP address is "::".
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// Close closes the socket. A waiting Read returns an error that wraps net.ErrClosed.
func (c *Conn) Close() error { return c.closer.Close() }

// unmapped converts an IPv4-mapped address to an IPv4 address.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
