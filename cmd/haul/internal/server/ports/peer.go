// Package ports opens the ports of services, and logs failed and refused connections to them.
package ports

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/tcp"
)

// unixProxy stands in the log for the address of a proxy that connects by a unix socket.
const unixProxy = "unix"

// PeerText returns the address of a peer as text for the log. An invalid address means a proxy on a
// unix socket that has not named a client.
func PeerText[A interface {
	IsValid() bool
	String() string
}](a A) string {
	if !a.IsValid() {
		return unixProxy
	}
	return a.String()
}

// Peer returns the address of a peer as text for the log, like [PeerText].
func Peer(a net.Addr) string {
	if a.Network() == "unix" {
		return unixProxy
	}
	return a.String()
}

// PeerAddr returns the address of a peer, or the zero Addr for a proxy that connects by a unix
// socket.
func PeerAddr(a net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(a.String())
	return at.Addr()
}

// ShownAddr returns the address of a listening socket as text for people, and an IP address at
// which this machine itself reaches the socket. asked is the configured address.
func ShownAddr(a netip.AddrPort, asked string) (shown string, host netip.Addr) {
	// "[::]" usually accepts both address families, but not if the configured address names IPv6.
	only6 := strings.HasPrefix(asked, "[")
	shown, host = a.String(), a.Addr()
	switch {
	case !host.IsUnspecified():
	case host.Is6() && only6:
		host = netip.IPv6Loopback()
	default:
		if host.Is6() {
			shown = fmt.Sprintf("*:%d", a.Port())
		}
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return shown, host
}

// ConnServer returns a server's counters and connections for package meter.
func ConnServer(s *tcp.Server) meter.ConnServer {
	return meter.ConnServer{
		Counters: func() meter.ConnCounters { return meter.ConnCounters(s.Counters()) },
		Peers: func(yield func(meter.Peer) bool) {
			for p := range s.Peers() {
				if !yield(meter.Peer(p)) {
					return
				}
			}
		},
	}
}

// CloseAll closes connections or sockets.
func CloseAll[C io.Closer](conns []C) {
	for _, c := range conns {
		_ = c.Close()
	}
}
