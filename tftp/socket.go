package tftp

import (
	"context"
	"net/netip"
	"time"

	"github.com/haul-project/haul/udp"
)

// A socket is what this package needs of a [udp.Conn]; the simulator has
// another.
type socket interface {
	Read(ms []udp.Message, deadline time.Time) (int, error)
	Write(ms []udp.Message) (int, error)
	Wake()
	Limits() udp.Limits
	LocalAddr() netip.AddrPort
	Close() error
}

// openSocket opens a socket of the kernel's.
func openSocket(ctx context.Context, addr netip.AddrPort, c udp.Config) (socket, error) {
	return udp.Listen(ctx, addr, c)
}
