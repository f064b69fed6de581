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

// A router stands between a client and the network, and translates addresses
// as one at home does, or one of Kubernetes: the client's port becomes one of
// the router's, and to that port nobody may send but those whom the client has
// sent to there: the same address and the same port. (RFC 4787 §5 calls that
// address and port-dependent filtering; Linux's masquerading does it.) It has
// no helper that knows TFTP.
type router struct {
	outside *node
	tun     *os.File                       // where the client's packets come out
	opened  func(from netip.AddrPort) bool // lets these pass besides; nil for none

	passed, blocked atomic.Int64 // packets to the client

	mu    sync.Mutex
	ports map[netip.AddrPort]*outsidePort // by the client's address
}

// An outsidePort is one of the router's, in the client's name.
type outsidePort struct {
	c    *net.UDPConn
	mu   sync.Mutex
	sent map[netip.AddrPort]bool // whom the client has sent to
}

// The addresses of the client behind a router, as seen there.
const behindRouter = "192.168.69.2"

// newRouter makes the client of a link a router, and returns it with a new
// client behind it. opened is a rule of its firewall's, or nil.
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

// openTunnel makes a network interface whose cable ends in the file returned: for packets
// of IP (unix.IFF_TUN), or for frames of Ethernet (unix.IFF_TAP).
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

// forward sends on what comes from the client, until the tunnel is closed.
func (r *router) forward(t *testing.T) {
	packet := make([]byte, 1<<16)
	for {
		n, err := r.tun.Read(packet)
		if err != nil {
			return
		}
		from, to, data, ok := cutUDP(packet[:n])
		if !ok {
			continue // what IPv6 says of its own accord
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

// port returns the port in the name of a client's, which is opened when the
// client sends from there first.
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

// back lets pass what may pass to the client, until the port is closed.
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
	ipHeader  = 20 // bytes, of IPv4 without options
	udpHeader = 8
	protoUDP  = 17
)

// cutUDP takes an IPv4 packet apart, if it holds UDP and is whole.
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

// packUDP makes an IPv4 packet (RFC 791, RFC 768). UDP goes without a checksum.
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
