//go:build linux

package interop

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A router stands between a client and the network, and translates addresses like one at home, or
// like Kubernetes: it maps the client's port to one of its own, and lets packets to that port
// pass only if the client has sent to their source before, with the same address and port. (RFC
// 4787 §5 calls this address and port-dependent filtering; Linux's masquerading does it.) It has
// no TFTP helper.
type router struct {
	outside *node
	tun     *os.File                       // the client's packets arrive here
	opened  func(from netip.AddrPort) bool // lets further packets pass; nil for none

	passed, blocked atomic.Int64 // packets to the client

	mu    sync.Mutex
	ports map[netip.AddrPort]*outsidePort // by the client's address
}

// An outsidePort is a port of the router that stands for one of the client.
type outsidePort struct {
	c    *net.UDPConn
	mu   sync.Mutex
	sent map[netip.AddrPort]bool // the addresses that the client has sent to
}

// behindRouter is the client's address behind a router.
const behindRouter = "192.168.69.2"

// newRouter makes the client of a link a router, and returns it with a new client behind it.
// opened is a rule of its firewall, or nil.
func newRouter(t *testing.T, l *link, opened func(from netip.AddrPort) bool) (*router, *node) {
	t.Helper()
	client := newNode(t)
	r := &router{outside: l.client, opened: opened, ports: make(map[netip.AddrPort]*outsidePort)}
	client.do(t, func() { r.tun = openTunnel(t, tunName, unix.IFF_TUN) })
	client.ip(t, address(tunName, behindRouter+"/24"), "link set dev "+tunName+" up", "route add default dev "+tunName)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.forward(t)
	}()
	t.Cleanup(func() {
		r.tun.Close()
		<-done
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, p := range r.ports {
			p.c.Close()
		}
	})
	return r, client
}

const tunName = "tun0"

// openTunnel makes a network interface whose cable ends in the returned file: for IP packets
// (unix.IFF_TUN), or for Ethernet frames (unix.IFF_TAP).
func openTunnel(t *testing.T, name string, mode uint16) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		absent(t, "no TUN device: /dev/net/tun: %v", err)
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(mode | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		unix.Close(fd)
		t.Fatalf("%s: %v", name, err)
	}
	return os.NewFile(uintptr(fd), name)
}

// forward forwards packets from the client until the tunnel is closed.
func (r *router) forward(t *testing.T) {
	packet := make([]byte, 1<<16)
	for {
		n, err := r.tun.Read(packet)
		if err != nil {
			return
		}
		from, to, data, ok := cutUDP(packet[:n])
		if !ok {
			continue // IPv6 packets that the kernel sends by itself
		}
		p, err := r.port(t, from)
		if err != nil {
			t.Error(err)
			return
		}
		p.mu.Lock()
		p.sent[to] = true
		p.mu.Unlock()
		if _, err := p.c.WriteToUDPAddrPort(data, to); err != nil {
			t.Errorf("router: %v", err)
		}
	}
}

// port returns the router's port for a port of a client, and opens it at the first packet.
func (r *router) port(t *testing.T, from netip.AddrPort) (*outsidePort, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.ports[from]
	if p != nil {
		return p, nil
	}
	p = &outsidePort{sent: make(map[netip.AddrPort]bool)}
	var err error
	r.outside.do(t, func() { p.c, err = net.ListenUDP("udp4", nil) })
	if err != nil {
		return nil, err
	}
	r.ports[from] = p
	go r.back(p, from)
	return p, nil
}

// back forwards permitted packets to the client until the port is closed.
func (r *router) back(p *outsidePort, client netip.AddrPort) {
	data := make([]byte, 1<<16)
	for {
		n, from, err := p.c.ReadFromUDPAddrPort(data)
		if err != nil {
			return
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		p.mu.Lock()
		known := p.sent[from]
		p.mu.Unlock()
		if !known && (r.opened == nil || !r.opened(from)) {
			r.blocked.Add(1)
			continue
		}
		r.passed.Add(1)
		if _, err := r.tun.Write(packUDP(from, client, data[:n])); err != nil {
			return
		}
	}
}

const (
	ipHeader  = 20 // bytes of IPv4 without options
	udpHeader = 8
	protoUDP  = 17
)

// cutUDP parses an IPv4 packet, if it contains UDP and is not a fragment.
func cutUDP(b []byte) (from, to netip.AddrPort, data []byte, ok bool) {
	const fragment = 0x3fff // more fragments, or an offset
	if len(b) < ipHeader+udpHeader || b[0] != 4<<4|ipHeader/4 || b[9] != protoUDP || binary.BigEndian.Uint16(b[6:])&fragment != 0 {
		return from, to, nil, false
	}
	u := b[ipHeader:]
	from = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[12:])), binary.BigEndian.Uint16(u))
	to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[16:])), binary.BigEndian.Uint16(u[2:]))
	return from, to, u[udpHeader:], true
}

// packUDP makes an IPv4 packet (RFC 791, RFC 768), without a UDP checksum.
func packUDP(from, to netip.AddrPort, data []byte) []byte {
	b := make([]byte, ipHeader+udpHeader, ipHeader+udpHeader+len(data))
	b[0], b[8], b[9] = 4<<4|ipHeader/4, 64, protoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(ipHeader+udpHeader+len(data)))
	copy(b[12:], from.Addr().AsSlice())
	copy(b[16:], to.Addr().AsSlice())
	sum := uint32(0)
	for i := 0; i < ipHeader; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(b[10:], ^uint16(sum>>16+sum))
	u := b[ipHeader:]
	binary.BigEndian.PutUint16(u, from.Port())
	binary.BigEndian.PutUint16(u[2:], to.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(udpHeader+len(data)))
	return append(b, data...)
}
