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
	socket *net.UDPConn // unused once an ownPoll has taken over
	closer io.Closer    // the owner of the socket
	local  netip.AddrPort
	pause  pause
	in     receiver
	out    sender
	most   Limits // Segments is the value at the start
}

// Listen opens a socket bound to addr. Port 0 lets the kernel choose one. The zero netip.Addr means
// every address of both families, or of IPv4 alone if there is no IPv6. The unspecified address of
// one family ("0.0.0.0", "::") means every address of that family only.
//
// Its errors wrap the kernel's, such as syscall.EADDRINUSE and syscall.EACCES.
func Listen(ctx context.Context, addr netip.AddrPort, c Config) (*Conn, error) {
	if c.ReusePort && !CanSharePort {
		return nil, fmt.Errorf("listen on %v: sharing a port: %w", addr, errors.ErrUnsupported)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listen on %v: %w", addr, err) // package net checks ctx only if it must look up a name
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

// newConn makes a Conn of a socket that is bound and has its options set.
func newConn(socket *net.UDPConn, c Config) (*Conn, error) {
	conn := &Conn{socket: socket, closer: socket, local: unmapped(socket.LocalAddr().(*net.UDPAddr).AddrPort())}
	conn.pause.socket = socket
	if err := conn.start(c); err != nil {
		return nil, err
	}
	return conn, nil
}

// target converts addr into the arguments of package net, which can open a socket for both families
// and handles a missing one.
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
// passes or Wake is called, and sometimes for no reason. A zero deadline never passes; a deadline
// in the past means not to wait.
//
// Read drops a datagram that is longer than its Data. To close the gap it may swap messages, so it
// is undefined which of the caller's buffers ends up in which of ms[:n].
//
// The error wraps net.ErrClosed once the Conn is closed. With [Config.Refusals], after all received
// datagrams, it may be a *net.OpError that wraps syscall.ECONNREFUSED; its Addr is the peer whose
// host answered that the port is closed. The Conn keeps working. No other report of an undelivered
// datagram is returned.
func (c *Conn) Read(ms []Message, deadline time.Time) (int, error) {
	if len(ms) == 0 {
		return 0, nil
	}
	return c.in.receive(ms, deadline)
}

// Write sends ms in order and returns how many were sent. An error is about ms[n] alone, some of
// whose datagrams may have been sent; the caller may skip it and continue. Datagrams larger than
// the path's MTU are sent in fragments.
//
// A message with more datagrams than [Limits.Segments] is sent in several parts. If the kernel does
// not cut up a message, because the device cannot or the path's MTU is less than the segment, Write
// does.
//
// While the kernel's buffer is full, Write waits for at most 100 ms. Then it returns an error that
// wraps os.ErrDeadlineExceeded, and it does not wait again until the kernel has accepted a
// datagram.
func (c *Conn) Write(ms []Message) (int, error) {
	return c.out.send(ms)
}

// maxStall is the longest time that a Write waits for room in the kernel's buffer. At 100 Mb/s a
// buffer of 1 MiB drains in that time. A loop that waited longer would miss its deadlines, so it is
// better to count the datagram as lost.
const maxStall = 100 * time.Millisecond

// Wake makes a waiting Read return at once, or else the next one that would wait. Several calls may
// have the effect of one.
func (c *Conn) Wake() { c.pause.wake() }

// Limits returns how much one call can move. Segments may fall while c is in use.
func (c *Conn) Limits() Limits {
	now := c.most
	now.Segments = c.out.limit()
	return now
}

// LocalAddr returns the address that c is bound to. For a socket of both families it is "[::]".
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// Close closes the socket. A waiting Read returns an error that wraps
// net.ErrClosed.
func (c *Conn) Close() error { return c.closer.Close() }

// unmapped converts an IPv4-mapped address to an IPv4 address.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
