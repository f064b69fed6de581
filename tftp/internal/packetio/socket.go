// Package packetio sends and receives the packets of TFTP transfers. It opens sockets, collects
// packets in batches that are sent in one system call, and traces datagrams. The server and the
// clients share it.
package packetio

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A Socket has the methods of a [udp.Conn] that a server and a client use. The simulator implements
// it too.
type Socket interface {
	Read(ms []udp.Message, deadline time.Time) (int, error)
	Write(ms []udp.Message) (int, error)
	Wake()
	Limits() udp.Limits
	LocalAddr() netip.AddrPort
	Close() error
}

// An Opener opens a socket like [udp.Listen].
type Opener func(ctx context.Context, addr netip.AddrPort, c udp.Config) (Socket, error)

type openerKey struct{}

// WithOpener returns a context with which [Open] calls open instead of the kernel. Tests use it for
// simulated networks.
func WithOpener(ctx context.Context, open Opener) context.Context {
	return context.WithValue(ctx, openerKey{}, open)
}

// Open opens a socket of the kernel, or calls the function given to [WithOpener] if ctx has one.
func Open(ctx context.Context, addr netip.AddrPort, c udp.Config) (Socket, error) {
	if open, ok := ctx.Value(openerKey{}).(Opener); ok {
		return open(ctx, addr, c)
	}
	return udp.Listen(ctx, addr, c)
}

// Duplicate returns a duplicate of a socket of the kernel.
func Duplicate(s Socket) (*os.File, error) {
	f, ok := s.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.ErrUnsupported // a simulated socket
	}
	return f.File()
}

// LookUp returns the addresses of a host. If host is an address, LookUp returns it with its zone,
// which the resolver would drop.
func LookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Sizes of the IP and UDP headers before a TFTP packet, in bytes.
const (
	ip4Headers = 20 + 8
	ip6Headers = 40 + 8
)

// BlockIn returns the size of the largest block that fits into an IP packet of mtu bytes to a peer.
func BlockIn(mtu int, peer netip.Addr) int {
	headers := ip4Headers
	if peer.Is6() {
		headers = ip6Headers
	}
	return mtu - headers - transfer.HeaderSize
}
