// Package packetio sends and receives the packets of TFTP transfers: sockets, the batch
// that leaves in one system call, and traces. The server and the clients share it.
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

// A Socket is what a server and a client need of a [udp.Conn]; the simulator has
// another.
type Socket interface {
	Read(ms []udp.Message, deadline time.Time) (int, error)
	Write(ms []udp.Message) (int, error)
	Wake()
	Limits() udp.Limits
	LocalAddr() netip.AddrPort
	Close() error
}

// An Opener opens a socket as [udp.Listen] does.
type Opener func(ctx context.Context, addr netip.AddrPort, c udp.Config) (Socket, error)

type openerKey struct{}

// WithOpener returns a context whose sockets open opens, instead of the kernel: tests
// have simulated networks.
func WithOpener(ctx context.Context, open Opener) context.Context {
	return context.WithValue(ctx, openerKey{}, open)
}

// Open opens a socket of the kernel's, or as [WithOpener] says.
func Open(ctx context.Context, addr netip.AddrPort, c udp.Config) (Socket, error) {
	if open, ok := ctx.Value(openerKey{}).(Opener); ok {
		return open(ctx, addr, c)
	}
	return udp.Listen(ctx, addr, c)
}

// Duplicate returns a duplicate of a socket of the kernel's.
func Duplicate(s Socket) (*os.File, error) {
	f, ok := s.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.ErrUnsupported // a simulated one
	}
	return f.File()
}

// LookUp returns the addresses of a host. One that is given as an address keeps
// its zone, which the resolver drops.
func LookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{ip}, nil
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Headers of IP and UDP before a TFTP packet, in bytes.
const (
	ip4Headers = 20 + 8
	ip6Headers = 40 + 8
)

// BlockIn returns the size of the block that fits an IP packet of mtu bytes to a peer.
func BlockIn(mtu int, peer netip.Addr) int {
	headers := ip4Headers
	if peer.Is6() {
		headers = ip6Headers
	}
	return mtu - headers - transfer.HeaderSize
}
