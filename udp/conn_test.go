package udp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	loopback4 = netip.MustParseAddr("127.0.0.1")
	loopback6 = netip.MustParseAddr("::1")
)

// patience is how long a test waits for an event that must happen. No test measures this time, and
// a passing test does not wait that long.
const patience = 20 * time.Second

func listen(t testing.TB, addr netip.Addr, c Config) *Conn {
	t.Helper()
	if addr.Is6() && !addr.Is4In6() && !haveIPv6() {
		t.Skip("this host has no IPv6")
	}
	conn, err := Listen(context.Background(), netip.AddrPortFrom(addr, 0), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// haveIPv6 reports whether this host has IPv6. It asks package net, so that a fault of this package
// does not change the answer.
var haveIPv6 = sync.OnceValue(func() bool {
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		return false
	}
	return c.Close() == nil
})

// buffers returns n messages with room for any datagram.
func buffers(n int) []Message {
	ms := make([]Message, n)
	for i := range ms {
		ms[i].Data = make([]byte, 0, 1<<16)
	}
	return ms
}

func write(t testing.TB, c *Conn, ms ...Message) {
	t.Helper()
	if n, err := c.Write(ms); n != len(ms) || err != nil {
		t.Fatalf("Write sent %d of %d: %v", n, len(ms), err)
	}
}

// A got is one received datagram with its source and destination.
type got struct {
	data  string
	peer  netip.AddrPort
	local netip.Addr
	glued bool
}

// read returns the next n datagrams.
func read(t testing.TB, c *Conn, n int) []got {
	t.Helper()
	var all []got
	ms := buffers(c.Limits().Messages)
	deadline := time.Now().Add(patience)
	for len(all) < n {
		k, err := c.Read(ms, deadline)
		if err != nil {
			t.Fatal(err)
		}
		if k == 0 && time.Now().After(deadline) {
			t.Fatalf("received %d datagrams of %d", len(all), n)
		}
		for i := range ms[:k] {
			m := &ms[i]
			for d := range m.Datagrams() {
				all = append(all, got{string(d), m.Peer, m.Local, m.Segment > 0})
			}
		}
	}
	if len(all) > n {
		t.Fatalf("received %d datagrams, want %d", len(all), n)
	}
	return all
}

func texts(all []got) []string {
	var s []string
	for _, g := range all {
		s = append(s, g.data)
	}
	return s
}

// configs holds the configurations with which the tests open sockets. The datagrams must be the
// same with each of them.
var configs = map[string]Config{
	"offload": {}, "plain": {Plain: true}, "refusals": {Refusals: true},
	"busy": {Busy: true}, "busy plain": {Busy: true, Plain: true},
}

// bothWays runs a test on sockets that wait in the network poller, and on sockets with their own
// epoll.
func bothWays(t *testing.T, test func(*testing.T, Config)) {
	t.Run("poller", func(t *testing.T) { test(t, Config{}) })
	t.Run("busy", func(t *testing.T) { test(t, Config{Busy: true}) })
}

func TestRoundTrip(t *testing.T) {
	for name, config := range configs {
		for _, tt := range []struct {
			name         string
			server, from netip.Addr
		}{
			{"v4", loopback4, loopback4},
			{"v6", loopback6, loopback6},
			{"every v4", netip.IPv4Unspecified(), loopback4},
			{"every v6", netip.IPv6Unspecified(), loopback6},
			{"both with v4 peer", netip.Addr{}, loopback4},
			{"both with v6 peer", netip.Addr{}, loopback6},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				server, client := listen(t, tt.server, config), listen(t, tt.from, config)
				at := netip.AddrPortFrom(tt.from, server.LocalAddr().Port())
				write(t, client, Message{Peer: at, Data: []byte("ping")}, Message{Peer: at})
				all := read(t, server, 2)
				if !slices.Equal(texts(all), []string{"ping", ""}) {
					t.Errorf("received %q", texts(all))
				}
				for _, g := range all {
					if g.peer != client.LocalAddr() {
						t.Errorf("from %v, want %v", g.peer, client.LocalAddr())
					}
					if g.local.IsValid() && g.local != tt.from {
						t.Errorf("reached %v, want %v", g.local, tt.from)
					}
				}
				write(t, server, Message{Peer: all[0].peer, Local: all[0].local, Data: []byte("pong")})
				if g := read(t, client, 1)[0]; g.data != "pong" || g.peer != at {
					t.Errorf("answered %q from %v, want pong from %v", g.data, g.peer, at)
				}
			})
		}
	}
}

// The datagrams of a segmented message arrive in order, however many of them the kernel cuts and
// glues at once.
func TestSegments(t *testing.T) {
	for name, config := range configs {
		for _, tt := range []struct{ length, segment int }{
			{10, 4}, {12, 4}, {1, 4}, {64 * 8, 8}, {65*8 + 3, 8}, {200 * 100, 100},
			{44*1472 + 1, 1472}, {65507, 1428}, {3 * 20000, 20000}, {2 * 40000, 40000},
		} {
			t.Run(name, func(t *testing.T) {
				server, client := listen(t, loopback4, config), listen(t, loopback4, config)
				m := Message{Peer: server.LocalAddr(), Data: pattern(tt.length), Segment: tt.segment}
				var want []string
				for d := range m.Datagrams() {
					want = append(want, string(d))
				}
				write(t, client, m)
				if all := texts(read(t, server, len(want))); !slices.Equal(all, want) {
					t.Errorf("%d bytes by %d came changed", tt.length, tt.segment)
				}
			})
		}
	}
}

// pattern returns n bytes in which no two parts are the same.
func pattern(n int) []byte {
	b := make([]byte, n)
	state := uint32(1)
	for i := range b {
		state = state*1664525 + 1013904223
		b[i] = byte(state >> 24)
	}
	return b
}

// Messages of many kinds in one Write keep their order.
func TestWriteMixed(t *testing.T) { bothWays(t, testWriteMixed) }

func testWriteMixed(t *testing.T, config Config) {
	server, client := listen(t, netip.Addr{}, config), listen(t, netip.Addr{}, config)
	to4 := netip.AddrPortFrom(loopback4, server.LocalAddr().Port())
	var ms []Message
	var want []string
	for i := range 150 {
		m := Message{Peer: to4, Data: pattern(1 + 37*i%900), Segment: i % 5 * 20}
		for d := range m.Datagrams() {
			want = append(want, string(d))
		}
		ms = append(ms, m)
	}
	write(t, client, ms...)
	if all := texts(read(t, server, len(want))); !slices.Equal(all, want) {
		t.Error("datagrams came changed or in another order")
	}
}

// A datagram longer than its buffer is dropped, but its neighbours are not.
func TestTruncated(t *testing.T) {
	server, client := listen(t, loopback4, Config{Plain: true}), listen(t, loopback4, Config{})
	to := server.LocalAddr()
	long := strings.Repeat("x", 101)
	for _, s := range []string{long, "a", long, long, "b", strings.Repeat("y", 100), long, "end"} {
		write(t, client, Message{Peer: to, Data: []byte(s)})
	}
	ms := make([]Message, 16)
	memory := map[*byte]bool{}
	for i := range ms {
		b := make([]byte, 100)
		ms[i].Data, memory[&b[0]] = b, true
	}
	var all []string
	for len(all) == 0 || all[len(all)-1] != "end" {
		n, err := server.Read(ms, time.Now().Add(patience))
		if n == 0 {
			t.Fatalf("after %q: %v", all, err)
		}
		for _, m := range ms[:n] {
			all = append(all, string(m.Data))
		}
	}
	if want := []string{"a", "b", strings.Repeat("y", 100), "end"}; !slices.Equal(all, want) {
		t.Errorf("received %q", all)
	}
	for i := range ms {
		delete(memory, &ms[i].Data[:1][0])
	}
	if len(memory) != 0 {
		t.Errorf("%d buffers of the caller were lost", len(memory))
	}
}

// An error belongs to one message. The messages before it were sent, and the messages after it can
// still be sent.
func TestWriteError(t *testing.T) { bothWays(t, testWriteError) }

func testWriteError(t *testing.T, config Config) {
	server, client := listen(t, loopback4, config), listen(t, loopback4, config)
	good := Message{Peer: server.LocalAddr(), Data: []byte("good")}
	for name, bad := range map[string]Message{
		"no peer":          {Data: []byte("bad")},
		"other family":     {Peer: netip.AddrPortFrom(loopback6, 9), Data: []byte("bad")},
		"too long":         {Peer: good.Peer, Data: make([]byte, 70000)},
		"segment too long": {Peer: good.Peer, Data: make([]byte, 140000), Segment: 70000},
	} {
		ms := []Message{good, good, bad, good}
		n, err := client.Write(ms)
		if n != 2 || err == nil {
			t.Errorf("%s: Write = %d, %v", name, n, err)
			continue
		}
		if _, err := client.Write(ms[n+1:]); err != nil {
			t.Errorf("%s: the message after it: %v", name, err)
		}
		read(t, server, 3)
	}
}

func TestListenError(t *testing.T) {
	taken := listen(t, loopback4, Config{})
	_, err := Listen(t.Context(), taken.LocalAddr(), Config{})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a taken port: %v", err)
	}
	if err != nil && !strings.Contains(err.Error(), taken.LocalAddr().String()) {
		t.Errorf("%q does not say what was attempted", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := Listen(ctx, netip.AddrPort{}, Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: %v, %v", c, err)
	}
}

// The unspecified addresses of IPv4 and IPv6 are different places: two sockets can have the same
// port.
func TestListenFamilies(t *testing.T) {
	// A port that is free with IPv6 may be in use with IPv4, so try several times.
	for tries := 1; ; tries++ {
		v6 := listen(t, netip.IPv6Unspecified(), Config{})
		v4, err := Listen(t.Context(), netip.AddrPortFrom(netip.IPv4Unspecified(), v6.LocalAddr().Port()), Config{})
		if err == nil {
			v4.Close()
			break
		}
		if !errors.Is(err, syscall.EADDRINUSE) || tries == 20 {
			t.Fatalf("while [::] is taken: %v", err)
		}
	}
	if mapped := listen(t, netip.AddrFrom16(loopback4.As16()), Config{}); mapped.LocalAddr().Addr() != loopback4 {
		t.Errorf("a mapped address became %v", mapped.LocalAddr())
	}
}

func TestLimits(t *testing.T) {
	for name, config := range configs {
		l := listen(t, loopback4, config).Limits()
		if l.Messages < 1 || l.Segments < 1 || l.Segments > maxSegments || l.Datagram < 1 || l.Buffer < 1 {
			t.Errorf("%s: %+v", name, l)
		}
		if config.Plain && (l.Segments != 1 || l.Datagram != 1) {
			t.Errorf("%s: %+v uses offloads", name, l)
		}
	}
	small := listen(t, loopback4, Config{Buffer: 16 << 10}).Limits()
	if large := listen(t, loopback4, Config{}).Limits(); small.Buffer >= large.Buffer {
		t.Errorf("a buffer of 16 KiB is %d, the default's is %d", small.Buffer, large.Buffer)
	}
}

func TestPathMTU(t *testing.T) {
	for _, peer := range []netip.Addr{loopback4, netip.AddrFrom16(loopback4.As16()), loopback6} {
		if peer == loopback6 && !haveIPv6() {
			continue
		}
		mtu, err := PathMTU(peer)
		if err != nil || mtu < 576 { // every host accepts packets of 576 bytes (RFC 791)
			t.Errorf("PathMTU(%v) = %d, %v", peer, mtu, err)
		}
	}
	if mtu, err := PathMTU(netip.Addr{}); err == nil {
		t.Errorf("PathMTU of nothing = %d", mtu)
	}
}

func TestClosed(t *testing.T) { bothWays(t, testClosed) }

func testClosed(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(buffers(1), time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
	if n, err := c.Write([]Message{{Peer: c.LocalAddr()}}); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write: %d, %v", n, err)
	}
	c.Wake()
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Errorf("Close again: %v", err)
	}
}

func TestEmptyCalls(t *testing.T) { bothWays(t, testEmptyCalls) }

func testEmptyCalls(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	if n, err := c.Read(nil, time.Time{}); n != 0 || err != nil {
		t.Errorf("Read of nothing: %d, %v", n, err)
	}
	if n, err := c.Write(nil); n != 0 || err != nil {
		t.Errorf("Write of nothing: %d, %v", n, err)
	}
}

func TestReusePort(t *testing.T) {
	first, err := Listen(t.Context(), netip.AddrPortFrom(loopback4, 0), Config{ReusePort: true})
	if !CanSharePort {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("sharing a port where it cannot be: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := Listen(t.Context(), first.LocalAddr(), Config{ReusePort: true})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	// The kernel chooses the receiver by a hash of the addresses, and every datagram of a peer goes
	// to the same socket.
	received := 0
	for range 32 {
		client := listen(t, loopback4, Config{})
		write(t, client, Message{Peer: first.LocalAddr(), Data: []byte("a")}, Message{Peer: first.LocalAddr(), Data: []byte("b")})
	}
	for _, c := range []*Conn{first, second} {
		ms := buffers(64)
		for n := -1; n != 0; {
			if n, err = c.Read(ms, longAgo); err != nil {
				t.Fatal(err)
			}
			received += n
		}
	}
	if received != 64 {
		t.Errorf("the sharers received %d datagrams of 64", received)
	}
}
