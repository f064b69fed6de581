package handover

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/udp"
)

// A place is a configured address and the sockets that are open at it.
type place struct {
	asked   string // the address as configured; "" if systemd opened the sockets
	sockets []*inherited
}

// take removes the sockets of a service from p.left. It returns a place for each address, with the
// sockets that are open at that address, if any. If systemd opened sockets for the service, it
// returns only those.
func (p *Inherited) take(service string, addrs []string) (places []place) {
	open := p.placesOf(service)
	bySystemd := slices.DeleteFunc(slices.Clone(open), func(g place) bool { return g.asked != "" })
	if len(bySystemd) > 0 {
		places = bySystemd
	} else {
		for _, addr := range addrs {
			if addr != "" {
				places = append(places, place{asked: addr})
			}
		}
		fill(places, open)
	}
	for _, g := range places {
		p.left = slices.DeleteFunc(p.left, func(s *inherited) bool { return slices.Contains(g.sockets, s) })
	}
	return places
}

// placesOf returns the sockets that a service could take, grouped by place. Sockets of the service
// itself come first, then suitable sockets of other services.
func (p *Inherited) placesOf(service string) (open []place) {
	for _, own := range []bool{true, false} {
		for _, s := range p.left {
			if own != (s.Service == service) || !own && !s.suits(service) {
				continue
			}
			same := slices.IndexFunc(open, func(g place) bool {
				return g.asked == s.Addr && g.sockets[0].Service == s.Service && g.sockets[0].at.String() == s.at.String()
			})
			if same < 0 {
				same = len(open)
				open = append(open, place{asked: s.Addr})
			}
			open[same].sockets = append(open[same].sockets, s)
		}
	}
	return open
}

// suits reports whether s, a socket of another service, can be used for the given service, because
// an address was changed from HTTP to HTTPS or back. A port that the kernel chose never suits,
// because no other service is configured with that port.
func (s *inherited) suits(service string) bool {
	web := []string{HTTP, HTTPS}
	_, port, err := splitAddr(s.Addr, "tcp")
	return slices.Contains(web, service) && slices.Contains(web, s.Service) && err == nil && port != 0
}

// fill assigns the open sockets to places. It first assigns sockets with the same configured
// address, then sockets whose configured address is another spelling of the same address.
func fill(places, open []place) {
	for _, same := range []func(place, string) bool{
		func(g place, addr string) bool { return g.asked == addr },
		place.isAt,
	} {
		for i := range places {
			if len(places[i].sockets) > 0 {
				continue
			}
			for j := range open {
				if len(open[j].sockets) > 0 && same(open[j], places[i].asked) {
					places[i].sockets, open[j].sockets = open[j].sockets, nil
					break
				}
			}
		}
	}
}

// isAt reports whether sockets are bound to an address. If a socket is bound to all addresses, the
// bound address does not show whether the socket accepts IPv4 too, so isAt compares the configured
// addresses of such sockets.
func (g place) isAt(addr string) bool {
	at := g.sockets[0].at
	host, port, err := splitAddr(addr, at.Network())
	if err != nil || port == 0 {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() {
		bound, err := netip.ParseAddrPort(at.String())
		return err == nil && netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port()) == netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	askedHost, askedPort, err := splitAddr(g.asked, at.Network())
	return err == nil && askedPort == port && askedHost == host
}

// splitAddr returns the parts of HOST:PORT in a canonical spelling, so that equal addresses have
// equal parts.
func splitAddr(addr, network string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	port, err = net.LookupPort(network, text)
	return strings.ToLower(host), port, err
}

// Rival returns the address of a socket from the predecessor that no service has taken and that has
// the same port as addr, or nil if there is no such socket. The socket may be the reason why addr
// cannot be opened.
func (p *Inherited) Rival(network, addr string) net.Addr {
	_, port, err := splitAddr(addr, network)
	if err != nil || port == 0 {
		return nil
	}
	for _, s := range p.left {
		bound, err := netip.ParseAddrPort(s.at.String())
		if err == nil && s.at.Network() == network && int(bound.Port()) == port {
			return s.at
		}
	}
	return nil
}

// A DatagramPlace is a configured address of TFTP, and the sockets that are open at it.
type DatagramPlace struct {
	Addr  string // the configured address; "" if systemd opened the sockets
	Conns []*udp.Conn

	// Shared reports whether transfers of the predecessor still use the sockets. They do so until
	// the predecessor reports that its service has ended.
	Shared bool
}

// Datagram takes the sockets for TFTP at these addresses, in their order. The caller opens places
// that have no sockets. If systemd opened sockets, only those are returned, whatever the addresses.
func (p *Inherited) Datagram(addrs []string) (places []DatagramPlace) {
	for _, g := range p.take(TFTP, addrs) {
		place := DatagramPlace{Addr: g.asked}
		for _, s := range g.sockets {
			place.Conns, place.Shared = append(place.Conns, s.conn), s.Shared
		}
		places = append(places, place)
	}
	return places
}

// A StreamPlace is a configured address of a service over TCP, and the socket that listens on it.
type StreamPlace struct {
	Addr   string      // the configured address; "" if systemd opened the socket
	Socket *tcp.Socket // nil means that the caller has to open it
}

// Stream takes the listening sockets for a service, in the same way as [Inherited.Datagram]. If it
// fails, it closes them.
func (p *Inherited) Stream(service string, addrs []string, o tcp.Options) (places []StreamPlace, err error) {
	for _, g := range p.take(service, addrs) {
		place := StreamPlace{Addr: g.asked}
		var files []*os.File
		for _, s := range g.sockets {
			files = append(files, s.File)
		}
		if err == nil && len(files) > 0 {
			var sockets []*tcp.Socket
			if sockets, err = tcp.FromFiles(files, o); err == nil {
				place.Socket = sockets[0] // there is only one socket, because all files are bound to the same address
			}
		}
		closeInherited(g.sockets)
		places = append(places, place)
	}
	if err != nil {
		for _, place := range places {
			if place.Socket != nil {
				_ = place.Socket.Close()
			}
		}
		return nil, err
	}
	return places, nil
}

// Boot takes the sockets for boot clients at these addresses, in their order, and other files that
// the predecessor handed over under the same name. It returns nil if the caller has to open the
// sockets. The caller closes the files.
func (p *Inherited) Boot(addrs []string) (files []*os.File) {
	for _, g := range p.take(Boot, addrs) {
		for _, s := range g.sockets {
			files = append(files, s.File)
		}
	}
	return files
}
