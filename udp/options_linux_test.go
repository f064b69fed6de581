//go:build !haul_portable

package udp

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// A Conn that is bound to one address does not ask the kernel for the address of each datagram, and
// still reports it.
func TestLocalOfBound(t *testing.T) { bothWays(t, testLocalOfBound) }

func testLocalOfBound(t *testing.T, config Config) {
	for _, tt := range []struct {
		on    string // the address, which may be IPv4-mapped
		asks  bool
		reach []string
	}{
		{"127.0.0.1", false, []string{"127.0.0.1"}},
		{"127.0.0.2", false, []string{"127.0.0.2"}},
		{"::ffff:127.0.0.2", false, []string{"127.0.0.2"}},
		{"::1", false, []string{"::1"}},
		{"0.0.0.0", true, []string{"127.0.0.1", "127.1.2.3"}},
		{"::ffff:0.0.0.0", true, []string{"127.0.0.1", "127.1.2.3"}},
		{"::", true, []string{"::1"}},
		{"", true, []string{"127.0.0.1", "127.0.0.2", "::1"}},
	} {
		t.Run("on "+tt.on, func(t *testing.T) {
			var on netip.Addr
			if tt.on != "" {
				on = netip.MustParseAddr(tt.on)
			}
			server := listen(t, on, config)
			if asks := option(t, server, unix.SOL_IP, unix.IP_PKTINFO) != 0; asks != tt.asks {
				t.Errorf("asks the kernel for addresses: %v, want %v", asks, tt.asks)
			}
			for _, s := range tt.reach {
				to := netip.AddrPortFrom(netip.MustParseAddr(s), server.LocalAddr().Port())
				if to.Addr().Is6() && !haveIPv6() {
					continue
				}
				client := listen(t, netip.Addr{}, Config{})
				write(t, client, Message{Peer: to, Data: pattern(30), Segment: 10})
				for _, g := range read(t, server, 3) {
					if g.local != to.Addr() {
						t.Errorf("sent to %v, reached %v", to.Addr(), g.local)
					}
					write(t, server, Message{Peer: g.peer, Local: g.local, Data: pattern(20), Segment: 10})
				}
				for _, g := range read(t, client, 6) {
					if g.peer != to {
						t.Errorf("sent to %v, answered from %v", to, g.peer)
					}
				}
			}
		})
	}
}

// option returns the value of a socket option, as the kernel reports it.
func option(t *testing.T, c *Conn, level, name int) (value int) {
	t.Helper()
	var err error
	if e := c.in.raw.Control(func(fd uintptr) { value, err = unix.GetsockoptInt(int(fd), level, name) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return value
}

// A socket that is bound to one address may send from another one, as long as that is ours.
func TestLocalBesideBound(t *testing.T) { bothWays(t, testLocalBesideBound) }

func testLocalBesideBound(t *testing.T, config Config) {
	conn, client := listen(t, loopback4, config), listen(t, loopback4, config)
	other := netip.MustParseAddr("127.0.0.2")
	port := conn.LocalAddr().Port()
	write(t, conn,
		Message{Peer: client.LocalAddr(), Local: loopback4, Data: []byte("a")},
		Message{Peer: client.LocalAddr(), Local: other, Data: []byte("b")},
		Message{Peer: client.LocalAddr(), Data: []byte("c")})
	for i, g := range read(t, client, 3) {
		if want := []netip.Addr{loopback4, other, loopback4}[i]; g.peer != netip.AddrPortFrom(want, port) {
			t.Errorf("datagram %d came from %v, want %v", i, g.peer, want)
		}
	}
	if n, err := conn.Write([]Message{{Peer: client.LocalAddr(), Local: netip.MustParseAddr("192.0.2.99")}}); n != 0 || err == nil {
		t.Errorf("from a foreign address: %d, %v", n, err)
	}
}

// A socket that is bound to an address may still receive packets to other addresses. The test
// checks for which addresses this is not possible.
func TestFixes(t *testing.T) {
	for s, want := range map[string]bool{
		"127.0.0.1": true, "192.0.2.1": true, "2001:db8::1": true, "::1": true, "::ffff:192.0.2.1": true,
		"0.0.0.0": false, "::": false, "::ffff:0.0.0.0": false, // the unspecified addresses
		"224.0.0.1": false, "ff02::1": false, "::ffff:224.0.0.1": false, // multicast groups
		"fe80::1": false, "fe80::1%lo": false, // addresses that several links may have
	} {
		if got := fixes(netip.MustParseAddr(s)); got != want {
			t.Errorf("%s: %v, want %v", s, got, want)
		}
	}
	if fixes(netip.Addr{}) {
		t.Error("no address is one")
	}
}

// An adopted socket reports its address too, also for datagrams that arrived before it was adopted.
func TestLocalOfAdopted(t *testing.T) {
	for _, config := range configs {
		f := bound(t, "udp4", "127.0.0.2:0")
		at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), portOf(t, f))
		client := listen(t, loopback4, Config{})
		write(t, client, Message{Peer: at, Data: []byte("early")})
		server := fromBound(t, f, config)
		write(t, client, Message{Peer: at, Data: []byte("late")})
		for _, g := range read(t, server, 2) {
			if g.local != at.Addr() {
				t.Errorf("%s reached %v", g.data, g.local)
			}
		}
	}
}
