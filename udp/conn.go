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

// A Conn is an unconnected socket. Only one goroutine at a time may call Read; the other methods
// may be called concurrently.
type Conn struct {
	socket *net.UDPConn // not used any more once an ownPoll has taken over
	closer io.Closer    // closes the socket: socket itself, or an ownPoll
	local  netip.AddrPort
	pause  pause
	in     receiver
	out    sender
	most   Limits // the limits; Segments has its value at the start
}

// Listen opens a socket bound to addr. Port 0 lets the kernel choose one. The zero netip.Addr means
// all addresses of IPv4 and IPv6, or of IPv4 alone if there is no IPv6. The unspecified address of
// one of them ("0.0.0.0", "::") means all addresses of that one.
//
// Its errors wrap those of the kernel, such as syscall.EADDRINUSE and syscall.EACCES.
func Listen(ctx context.Context, addr netip.AddrPort, c Config) (*Conn, error) {
	if c.ReusePort && !CanSharePort {
		return nil, fmt.Errorf("listen on %v: sharing a port: %w", addr, errors.ErrUnsupported)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listen on %v: %w", addr, err) // package net checks ctx only when it looks up a name
	}
	lc := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) error {
		return control(network, raw, addr.Addr(), c)
	}}
	network, address := target(addr)
	pc, err := lc.ListenPacket(ctx, network, address)
	if err != nil {
		return nil, err // reads like "listen udp4 192.0.2.1:69: bind: permission denied"
	}
	conn, err := newConn(pc.(*net.UDPConn), c)
	if err != nil {
		pc.Close()
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	return conn, nil
}

// newConn returns a Conn for a socket that is bound and has its options set.
func newConn(socket *net.UDPConn, c Config) (*Conn, error) {
	conn := &Conn{socket: socket, closer: socket, local: unmapped(socket.LocalAddr().(*net.UDPAddr).AddrPort())}
	conn.pause.socket = socket
	if err := conn.start(c); err != nil {
		return nil, err
	}
	return conn, nil
}

// target converts addr into the arguments for package net. Package net can open a socket for both
// IPv4 and IPv6, and handles a system without one of them.
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

// Read waits for datagrams and fills ms from the front. It returns 0 and no error when the deadline
// passes or Wake is called, and sometimes for no reason. A zero deadline never passes. With a
// deadline in the past, Read does not wait.
//
// Read drops a datagram that is longer than its Data. To close the gap it may swap messages, so it
// is undefined in which of ms[:n] a buffer of the caller ends up.
//
// The error wraps net.ErrClosed once the Conn is closed. With [Config.Refusals], once all received
// datagrams are read, it may be a *net.OpError that wraps syscall.ECONNREFUSED. The Addr of such an
// error is the peer whose host answered that the port is closed, and the Conn keeps working. Read
// returns no other reports of undelivered datagrams.
func (c *Conn) Read(ms []Message, deadline time.Time) (int, error) {
	if len(ms) == 0 {
		return 0, nil
	}
	return c.in.receive(ms, deadline)
}

// Write sends ms in order and returns the number n of messages that were sent. An error concerns
// only ms[n], of which some datagrams may have been sent; the caller may skip that message and
// continue. Datagrams larger than the path's MTU are sent in fragments.
//
// A message with more datagrams than [Limits.Segments] is sent in several parts. If the kernel does
// not cut up a message, because the device cannot or because the path's MTU is less than the
// segment, Write cuts it up.
//
// While the kernel's buffer is full, Write waits for at most 100 ms. Then it returns an error that
// wraps os.ErrDeadlineExceeded, and it does not wait again until the kernel has accepted a
// datagram.
func (c *Conn) Write(ms []Message) (int, error) {
	return c.out.send(ms)
}

// maxStall is the longest time that a Write waits for room in the kernel's buffer. At 100 Mb/s a
// buffer of 1 MiB drains in that time. A loop that waited longer would miss its deadlines, so it is
// better to treat the datagram as lost.
const maxStall = 100 * time.Millisecond

// Wake makes a waiting Read return at once. If no Read waits, the next one that would wait returns
// instead. Several calls may have the effect of one.
func (c *Conn) Wake() { c.pause.wake() }

// Limits returns how much one call can move. Its Segments may fall to 1 while c is in use.
func (c *Conn) Limits() Limits {
	now := c.most
	now.Segments = c.out.limit()
	return now
}

// LocalAddr returns the address that c is bound to. For a socket for both IPv4 and IPv6 its IP
// address is "::".
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// Close closes the socket. A waiting Read returns an error that wraps
// net.ErrClosed.
func (c *Conn) Close() error { return c.closer.Close() }

// unmapped converts an IPv4-mapped address to an IPv4 address.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
