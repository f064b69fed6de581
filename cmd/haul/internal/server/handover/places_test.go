//go:build unix

package handover

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/udp"
)

// An address matches another spelling of itself. The address that means all addresses does not
// match an address that means all addresses of one family.
func TestIsAt(t *testing.T) {
	for _, c := range []struct {
		asked, bound string // the configured and the actual address of the open sockets
		addr         string
		same         bool
	}{
		{":69", "[::]:69", ":tftp", true},
		{":69", "[::]:69", "[::]:69", false}, // IPv6 only, for TFTP
		{"[::]:69", "[::]:69", "[0::0]:69", true},
		{"[::]:69", "[::]:69", ":69", false},
		{":69", "[::]:69", "0.0.0.0:69", false},
		{":69", "[::]:69", ":70", false},
		{"127.0.0.1:69", "127.0.0.1:69", "127.0.0.1:069", true},
		{"localhost:69", "127.0.0.1:69", "127.0.0.1:69", true},
		{"localhost:69", "127.0.0.1:69", "LOCALHOST:69", true},
		{"localhost:69", "127.0.0.1:69", "127.0.0.2:69", false},
		{"127.0.0.1:0", "127.0.0.1:4069", "127.0.0.1:4069", true},
		{"127.0.0.1:0", "127.0.0.1:4069", "localhost:0", false},
		{":69", "[::]:69", "nonsense", false},
	} {
		at := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(c.bound))
		open := place{asked: c.asked, sockets: []*inherited{{at: at}}}
		if got := open.isAt(c.addr); got != c.same {
			t.Errorf("%s, bound to %s, is %s: %v", c.asked, c.bound, c.addr, got)
		}
	}
}

// handed creates sockets of a predecessor, for TFTP or over TCP.
func handed(t *testing.T, service string, asked ...string) (sockets []Socket, at []string) {
	t.Helper()
	for _, addr := range asked {
		var open interface{ File() (*os.File, error) }
		var bound net.Addr
		if service == TFTP {
			conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			open, bound = conn.(*net.UDPConn), conn.LocalAddr()
		} else {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			open, bound = l.(*net.TCPListener), l.Addr()
		}
		f, err := open.File()
		if err != nil {
			t.Fatal(err)
		}
		sockets, at = append(sockets, Socket{Service: service, Addr: addr, File: f}), append(at, bound.String())
	}
	return sockets, at
}

// A service takes the sockets of its addresses, in the order of the addresses. The other sockets
// are closed.
func TestInheritByAddress(t *testing.T) {
	any4 := "127.0.0.1:0"
	tftps, tftpAt := handed(t, TFTP, "a:69", any4, "b:69", any4)
	https, httpAt := handed(t, HTTP, "a:80", any4, "b:80")
	ftps, sftpAt := handed(t, SFTP, "a:22") // no longer served
	metrics, metricsAt := handed(t, Metrics, "a:90")
	tftps[1].Shared = true
	var all []Socket
	for _, s := range slices.Concat(tftps, https, ftps, metrics) { // as the child gets them
		got, err := parseSocket(s.name())
		if err != nil || got.Service != s.Service || got.Addr != s.Addr || got.Shared != s.Shared {
			t.Errorf("%+v, %v; want %+v", got, err, s)
		}
		got.File = s.File
		all = append(all, got)
	}
	p, err := Inherit(udp.Config{}, []string{TFTP, HTTP, HTTPS}, nil, all)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var got []string
	for _, place := range p.Datagram([]string{any4, "new:69", "", "b:69"}) {
		text := place.Addr
		for _, c := range place.Conns {
			text += " " + c.LocalAddr().String()
			defer c.Close()
		}
		if got = append(got, text); place.Shared != (place.Addr == any4) {
			t.Errorf("%s: shared is %v", place.Addr, place.Shared)
		}
	}
	stream := func(service string, addrs ...string) {
		t.Helper()
		places, err := p.Stream(service, addrs, tcp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range places {
			text := place.Addr
			if place.Socket != nil {
				text += " " + place.Socket.Addr().String()
				defer place.Socket.Close()
			}
			got = append(got, text)
		}
	}
	stream(HTTP, "b:80")
	stream(HTTPS, any4, "a:80") // that of HTTP, but no port that the kernel chose for HTTP
	stream(Metrics, "a:91")
	stream(Metrics, "a:90")
	want := []string{any4 + " " + tftpAt[1], "new:69", "b:69 " + tftpAt[2], "b:80 " + httpAt[2], any4, "a:80 " + httpAt[0], "a:91", "a:90 " + metricsAt[0]}
	if !slices.Equal(got, want) {
		t.Errorf("took %q\nwant %q", got, want)
	}
	if rival := p.Rival("tcp", sftpAt[0]); rival == nil || rival.String() != sftpAt[0] {
		t.Errorf("the port of %s is at %v", sftpAt[0], rival)
	}
	p.Close()
	for _, addr := range []string{sftpAt[0], httpAt[1]} {
		if c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s still listens", addr)
		}
	}
}

// systemd's sockets are taken whatever the addresses are. Their services have to be served.
func TestInheritActivated(t *testing.T) {
	sockets, at := handed(t, SFTP, "", "")
	p, err := Inherit(udp.Config{}, []string{SFTP}, nil, sockets)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	places, err := p.Stream(SFTP, []string{"a:22"}, tcp.Options{})
	if err != nil || len(places) != 2 {
		t.Fatal(places, err)
	}
	for i, place := range places {
		if place.Addr != "" || place.Socket.Addr().String() != at[i] {
			t.Errorf("%q at %v, want %s", place.Addr, place.Socket.Addr(), at[i])
		}
		place.Socket.Close()
	}
	for service, says := range map[string]string{SFTP: "no longer served", "gopher": "gopher"} {
		sockets, at := handed(t, service, "")
		_, err := Inherit(udp.Config{}, []string{TFTP, "gopher"}, nil, sockets)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", service, err)
		}
		if c, err := net.Dial("tcp", at[0]); err == nil {
			c.Close()
			t.Errorf("%s still listens", service)
		}
	}
	if _, err := parseSocket("tftp"); err == nil {
		t.Error("an older version is taken as a predecessor")
	}
}
