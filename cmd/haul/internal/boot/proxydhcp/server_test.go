package proxydhcp

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// newTestServer returns a server with these interfaces.
func newTestServer(t *testing.T, c Config, links ...Interface) *Server {
	t.Helper()
	if c.Rules.Files == nil {
		c.Rules.Files = map[pxe.Arch]string{pxe.X64: "ipxe.efi"}
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.interfaces.list = func() ([]Interface, error) { return links, nil }
	s.interfaces.refresh()
	return s
}

// fromX64 returns a packet of a machine with UEFI, forwarded by a relay agent at giaddr.
func fromX64(t *testing.T, kind uint8, giaddr dhcp.Addr) []byte {
	t.Helper()
	k, err := ParseKind("x64")
	if err != nil {
		t.Fatal(err)
	}
	b := k.appendRequest(nil, kind, RandomMAC(), 7, dhcp.Addr{})
	copy(b[24:], giaddr[:])
	return b
}

// The source and the destination of a packet also matter: a client cannot make haul send to a
// network that the client is not in, or to all machines of a network by its broadcast address.
func TestSources(t *testing.T) {
	s := newTestServer(t, Config{Rules: pxe.Rules{Relays: []dhcp.Network{{}}}},
		Interface{Name: "eth0", Index: 2, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24"), netip.MustParsePrefix("192.0.2.100/32")}},
		Interface{Name: "eth1", Index: 4, Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.9/24")}})
	for name, test := range map[string]struct {
		port             uint16
		from, to, giaddr string
		want             pxe.Reason
		err              error
		sentTo, sentFrom string
		index            int
	}{
		"broadcast":                      {port: 67, from: "0.0.0.0:68", to: "255.255.255.255", sentTo: "255.255.255.255:68", index: 2},
		"broadcast to the network":       {port: 67, from: "0.0.0.0:68", to: "192.0.2.255", sentTo: "255.255.255.255:68", index: 2},
		"broadcast from an old address":  {port: 67, from: "203.0.113.5:68", to: "255.255.255.255", sentTo: "255.255.255.255:68", index: 2},
		"to this server":                 {port: 67, from: "192.0.2.77:68", to: "192.0.2.9", sentTo: "255.255.255.255:68", index: 2},
		"to this server, from afar":      {port: 67, from: "203.0.113.5:68", to: "192.0.2.9", want: pxe.OffLink},
		"to an unknown address":          {port: 67, from: "203.0.113.5:68", want: pxe.OffLink},
		"relay":                          {port: 67, from: "198.51.100.1:67", to: "192.0.2.9", giaddr: "198.51.100.1", sentTo: "198.51.100.1:67"},
		"relay on the link":              {port: 67, from: "192.0.2.1:67", to: "192.0.2.9", giaddr: "192.0.2.1", sentTo: "192.0.2.1:67", index: 2},
		"relay that is all machines":     {port: 67, from: "192.0.2.66:67", to: "192.0.2.9", giaddr: "192.0.2.255", err: errToBroadcast},
		"relay that is all of eth1":      {port: 67, from: "192.0.2.66:67", to: "192.0.2.9", giaddr: "198.51.100.255", err: errToBroadcast},
		"broadcast to eth1's network":    {port: 67, from: "0.0.0.0:68", to: "198.51.100.255", sentTo: "255.255.255.255:68", index: 2},
		"PXE, to all of eth1":            {port: 4011, from: "192.0.2.77:4011", to: "198.51.100.255", sentTo: "192.0.2.77:4011", index: 2},
		"PXE":                            {port: 4011, from: "192.0.2.77:4011", to: "192.0.2.9", sentTo: "192.0.2.77:4011", index: 2},
		"PXE, asked at another address":  {port: 4011, from: "192.0.2.77:4011", to: "192.0.2.100", sentTo: "192.0.2.77:4011", sentFrom: "192.0.2.100", index: 2},
		"multicast":                      {port: 67, from: "192.0.2.77:68", to: "224.0.0.1", sentTo: "255.255.255.255:68", index: 2},
		"PXE from a broadcast address":   {port: 4011, from: "192.0.2.255:7", to: "192.0.2.9", err: errToBroadcast},
		"PXE from the network's address": {port: 4011, from: "192.0.2.0:7", to: "192.0.2.9", err: errToBroadcast},
		// Relays may have any address.
		"PXE from an address that is far": {port: 4011, from: "203.0.113.5:4011", to: "192.0.2.9", sentTo: "203.0.113.5:4011"},
	} {
		t.Run(name, func(t *testing.T) {
			var giaddr dhcp.Addr
			if test.giaddr != "" {
				giaddr = netip.MustParseAddr(test.giaddr).As4()
			}
			came := arrival{peer: netip.MustParseAddrPort(test.from), index: 2}
			if test.to != "" {
				came.to = netip.MustParseAddr(test.to)
			}
			kind := uint8(dhcp.Discover)
			if test.port == dhcp.PortPXE {
				kind = dhcp.Request
			}
			e, d := s.handle(fromX64(t, kind, giaddr), came, test.port, nil)
			if e.Answer.Reason != test.want || !errors.Is(e.Err, test.err) {
				t.Fatalf("%+v; want %v, %v", e, test.want, test.err)
			}
			if sent := len(e.Answer.Packet) > 0; sent != (test.sentTo != "") {
				t.Fatalf("an answer of %d bytes", len(e.Answer.Packet))
			}
			from := netip.MustParseAddr(cmp.Or(test.sentFrom, "192.0.2.9"))
			if test.sentTo != "" && (d.to != netip.MustParseAddrPort(test.sentTo) || d.index != test.index || d.from != from) {
				t.Errorf("it is sent as %+v, want from %v to %s by %d", d, from, test.sentTo, test.index)
			}
		})
	}
	if e, _ := s.handle(fromX64(t, dhcp.Discover, dhcp.Addr{}), arrival{peer: netip.MustParseAddrPort("0.0.0.0:68"), to: broadcast, index: 3}, 67, nil); e.Answer.Reason != pxe.OtherLink {
		t.Errorf("a packet of an unknown interface: %+v", e)
	}
}

// listenLoopback returns an open UDP socket on loopback as a file, and its address.
func listenLoopback(t *testing.T) (f *os.File, addr string) {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if f, err = c.File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, c.LocalAddr().String()
}

// A successor receives on the sockets of a server that has ended. Each packet is reported. A
// missing socket is an error.
func TestAdopt(t *testing.T) {
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	lo := Interface{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8")}}
	for _, l := range links {
		if l.Flags&net.FlagLoopback != 0 {
			lo.Name, lo.Index = l.Name, l.Index
		}
	}
	events := make(chan Event, 1)
	c := Config{Report: func(e Event) { e.Request = nil; events <- e }}
	dhcp, at := listenLoopback(t)
	boot, _ := listenLoopback(t)
	first, second := newTestServer(t, c, lo), newTestServer(t, c, lo)
	if err := first.Adopt([]*os.File{dhcp, boot}); err != nil {
		t.Fatal(err)
	}
	files, err := first.Files()
	if err != nil {
		t.Fatal(err)
	}
	defer closeFiles(files)
	first.Close()
	if err := first.Serve(t.Context()); err != nil {
		t.Errorf("a server that is closed: %v", err)
	}
	if err := second.Adopt(files); err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- second.Serve(t.Context()) }()
	client, err := net.Dial("udp4", at)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Write([]byte("no packet of DHCP")); err != nil {
		t.Fatal(err)
	}
	if e := <-events; e.Answer.Reason != pxe.Malformed || e.Port != 67 || e.Interface != lo.Name || e.From.String() != client.LocalAddr().String() {
		t.Errorf("%+v", e)
	}
	second.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := newTestServer(t, c, lo).Adopt(files[:1]); err == nil {
		t.Error("one socket is enough")
	}
}

// A socket that keeps failing ends the server with an error, so that a service manager can start
// another. Until then the server lists the interfaces at its start, and again after
// interfacesEvery.
func TestServeEndsAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dhcp, _ := listenLoopback(t)
		boot, _ := listenLoopback(t)
		s := newTestServer(t, Config{}, Interface{})
		if err := s.Adopt([]*os.File{dhcp, boot}); err != nil {
			t.Fatal(err)
		}
		for _, one := range s.sockets {
			if err := one.conn.SetReadDeadline(time.Unix(1, 0)); err != nil { // each receive fails at once
				t.Fatal(err)
			}
		}
		var reads atomic.Int32
		s.interfaces.list = func() ([]Interface, error) { reads.Add(1); return nil, nil }
		began := time.Now()
		err := s.Serve(t.Context())
		if n := reads.Load(); n != 2 {
			t.Errorf("the interfaces are listed %d times, want 2", n)
		}
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "receive on port ") || took != (maxErrors-1)*errorPause {
			t.Errorf("%v after %v", err, took)
		}
	})
}
