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

// A Conn is an unconnected socket. One goroutine at a time may Read; any may
// call the other methods.
type Conn struct {
	socket *net.UDPConn // until an ownPoll has taken over
	closer io.Closer    // the owner of the socket
	local  netip.AddrPort
	pause  pause
	in     receiver
	out    sender
	most   Limits // Segments as at the start
}

// Listen opens a socket bound to addr; port 0 lets the kernel choose one. The
// zero netip.Addr stands for every address of both families, or of IPv4 alone
// where there is no IPv6. The unspecified address of one family ("0.0.0.0",
// "::") stands for that family only.
//
// Its errors wrap the kernel's: syscall.EADDRINUSE, syscall.EACCES and so on.
func Listen(ctx context.Context, addr netip.AddrPort, c Config) (*Conn, error) {
	if c.ReusePort && !CanSharePort {
		return nil, fmt.Errorf("listen on %v: sharing a port: %w", addr, errors.ErrUnsupported)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("listen on %v: %w", addr, err) // package net looks only if it must look up a name
	}
	lc := net.ListenConfig{Control: func(network, _ string, raw syscall.RawConn) error {
		return control(network, raw, addr.Addr(), c)
	}}
	network, address := target(addr)
	pc, err := lc.ListenPacket(ctx, network, address)
	if err != nil {
		return nil, err // says "listen udp4 192.0.2.1:69: bind: permission denied"
	}
	conn, err := newConn(pc.(*net.UDPConn), c)
	if err != nil {
		pc.Close()
		return nil, fmt.Errorf("listen on %v: %w", addr, err)
	}
	return conn, nil
}

// newConn makes a Conn of a socket that is bound and has its options.
func newConn(socket *net.UDPConn, c Config) (*Conn, error) {
	conn := &Conn{socket: socket, closer: socket, local: unmapped(socket.LocalAddr().(*net.UDPAddr).AddrPort())}
	conn.pause.socket = socket
	if err := conn.start(c); err != nil {
		return nil, err
	}
	return conn, nil
}

// target puts addr in the words of package net, which knows how to open a
// socket for both families and what to do where one is missing.
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

// Read waits for datagrams and fills ms from the front. It returns 0 and no
// error when the deadline passes or Wake is called, and now and then for no
// reason; a zero deadline never passes, and one in the past means not to wait.
//
// A datagram longer than the Data it would go to is dropped. To close the gap,
// messages may change places: which of the caller's buffers is found in which
// of ms[:n] is not defined.
//
// The error wraps net.ErrClosed once the Conn is closed. With
// [Config.Refusals] it may be a *net.OpError that wraps syscall.ECONNREFUSED,
// its Addr naming the peer whose host answered that its port is closed, after all received
// datagrams; the Conn keeps working. No other report of an undelivered datagram surfaces.
func (c *Conn) Read(ms []Message, deadline time.Time) (int, error) {
	if len(ms) == 0 {
		return 0, nil
	}
	return c.in.receive(ms, deadline)
}

// Write sends ms in order and returns how many left. An error belongs to
// ms[n] alone, of which some datagrams may have left: the caller may skip it
// and continue. Datagrams larger than the path's MTU leave in fragments.
//
// A message with more datagrams than [Limits.Segments] is sent in several
// parts, and one that the kernel will not cut up, because the device cannot or
// the path's MTU is less than the segment, is cut up here.
//
// While the kernel's buffer is full Write waits, for 100 ms at most. Then it
// returns an error that wraps os.ErrDeadlineExceeded, and it does not wait
// again until the kernel has taken a datagram.
func (c *Conn) Write(ms []Message) (int, error) {
	return c.out.send(ms)
}

// maxStall is the longest a Write waits for room in the kernel's buffer. At
// 100 Mb/s a buffer of 1 MiB drains in that time; a loop that waited longer
// would miss its deadlines, and the datagram is better counted as lost.
const maxStall = 100 * time.Millisecond

// Wake makes a waiting Read return at once, or else the next one that would
// wait. Several calls may count as one.
func (c *Conn) Wake() { c.pause.wake() }

// Limits says how much one call moves. Segments may fall while c is in use.
func (c *Conn) Limits() Limits {
	now := c.most
	now.Segments = c.out.limit()
	return now
}

// LocalAddr returns the address c is bound to. That of a socket for both
// families is "[::]".
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// Close closes the socket. A waiting Read returns an error that wraps
// net.ErrClosed.
func (c *Conn) Close() error { return c.closer.Close() }

// unmapped writes an IPv4 address as one, however the socket spells it.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}
