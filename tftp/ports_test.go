package tftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// With a single port, everything is sent from the port for requests.
func TestSinglePort(t *testing.T) {
	for _, loops := range []int{1, 3} {
		inWorld(t, func(w *simWorld, s *Config) {
			s.SinglePort, s.Loops = true, loops
			w.net.Default = sim.Link{Latency: 2 * time.Millisecond, Loss: 0.01}
			w.net.Tap = func(p sim.Packet) bool {
				if p.From.Addr() == netip.MustParseAddr(serverIP) && p.From.Port() != transfer.Port {
					t.Errorf("a packet comes from %v", p.From)
				}
				return true
			}
		}, func(w *simWorld) {
			want := w.put("image", 30_000)
			here := store.Mem(1 << 30)
			c := w.client()
			var wg sync.WaitGroup
			for i := range 100 {
				wg.Go(func() {
					name := fmt.Sprint(i)
					var err error
					if i%3 == 0 {
						_, err = c.Put(context.Background(), target(name), bytes.NewReader(want), int64(len(want)))
					} else {
						_, err = c.Get(context.Background(), target("image"), tftptest.Into(here, name))
					}
					if err != nil {
						t.Errorf("transfer %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			for i := range 100 {
				tftptest.WantFile(t, map[bool]store.Store{true: w.mem, false: here}[i%3 == 0], fmt.Sprint(i), want)
			}
			sockets := loops
			if !udp.CanSharePort {
				sockets = 1
			} else if loops > 1 {
				sockets++ // the socket for broadcast requests
			}
			if n := w.net.Host(serverIP).Open(); n != sockets {
				t.Errorf("%d sockets open for %d loops", n, loops)
			}
		})
	}
}

// With a single port, requests and packets of transfers arrive mixed.
func TestSinglePortMixed(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) { s.SinglePort = true }, func(w *simWorld) {
		w.net.Glue = true
		want, other := w.put("image", 2000), w.put("other", 700)
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.Data(7, nil))
		p.WantError("a stranger", transfer.UnknownID)
		p.Send([]byte("\x00\x01nonsense"))
		p.WantError("nonsense", transfer.IllegalOperation)
		p.Send([]byte{0})
		p.Send(tftptest.ErrorPacket(0, "x"))
		p.WantNothing("what must not be answered", time.Second)

		p.Send(tftptest.RRQ("image"))
		p.Want("first block", tftptest.Data(1, want[:512]))
		for range 3 {
			p.Send(tftptest.RRQ("image"))
		}
		p.WantNothing("repeats", 200*time.Millisecond)
		p.Send(tftptest.ACK(1))
		p.Want("second block", tftptest.Data(2, want[512:1024]))
		p.Send(tftptest.RRQ("other")) // starts another transfer in the middle of the first
		p.Want("first block of the other", tftptest.Data(1, other[:512]))
		p.Send(tftptest.ACK(1))
		p.Want("last block of the other", tftptest.Data(2, other[512:]))
		p.Send(tftptest.ACK(2))
		p.Send(tftptest.ACK(2))
		w.wantResults(map[Outcome]int{Replaced: 1, Done: 1})
		if c := w.server.Counters(); c.TurnedAway[Malformed] != 1 || c.Strays == 0 {
			t.Errorf("counters: %+v", c)
		}
	})
}

// Packets that arrived while a shared port was being opened are dropped: their transfer would
// begin in one loop and continue in another.
func TestSinglePortDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.put("image", 100)
		p := w.raw(otherIP)
		defer p.Close()
		w.start(func(w *simWorld, s *Config) {
			s.SinglePort, s.Loops = true, 2
			open, opened := w.hooks.open, 0
			w.hooks.open = func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
				conn, err := open(ctx, addr, c)
				if opened++; opened == 2 { // the first of the sockets that stay open
					p.Send(tftptest.RRQ("image"))
					time.Sleep(time.Millisecond)
				}
				return conn, err
			}
		})
		p.WantNothing("a request that came too soon", time.Second)
		p.Send(tftptest.RRQ("image"))
		if got := p.News(); transfer.OpcodeOf(got) != transfer.Data {
			t.Errorf("answered by %q", got)
		}
		p.Send(tftptest.ACK(1))
		w.end()
	})
}

// Transfers use ports of the range, and skip those that are in use.
func TestPortRange(t *testing.T) {
	var taken []packetio.Socket
	inWorld(t, func(w *simWorld, s *Config) {
		s.FirstPort, s.LastPort, s.Loops = 5000, 5003, 2
		for _, port := range []uint16{5000, 5002} {
			conn, err := w.net.Host(serverIP).Listen(context.Background(), addrPort(serverIP, port), udp.Config{})
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, conn)
		}
	}, func(w *simWorld) {
		want := w.put("image", 3000)
		for range 20 {
			here := store.Mem(0)
			res, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image"))
			if err != nil || res.Peer.Port() != 5001 && res.Peer.Port() != 5003 {
				t.Errorf("from port %d: %v", res.Peer.Port(), err)
			}
			tftptest.WantFile(t, here, "image", want)
		}
		closeSockets(taken)
	})
}

func TestPortRangeErrors(t *testing.T) {
	n := sim.New(1)
	h := n.Host(serverIP)
	for port := uint16(5000); port <= 5001; port++ {
		if _, err := h.Listen(t.Context(), addrPort(serverIP, port), udp.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		s    Config
		want error // nil means any error
	}{
		{Config{FirstPort: 5000, LastPort: 5001}, syscall.EADDRINUSE},
		{Config{FirstPort: 5001, LastPort: 5000}, nil},
		{Config{FirstPort: 5000}, nil},
		{Config{LastPort: 5000}, nil},
		{Config{FirstPort: 1, LastPort: 2, SinglePort: true}, nil},
	} {
		test.s.Store = store.Mem(0)
		open := func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
			return h.Listen(ctx, addr, c)
		}
		l, err := listen(t.Context(), testHooks{open: open}, test.s, serverIP+":69")
		if err == nil {
			_ = l.Close()
		}
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("ports %d to %d: %v", test.s.FirstPort, test.s.LastPort, err)
		}
	}
	if open := h.Open(); open != 2 {
		t.Errorf("%d sockets open", open)
	}
	// One free port is enough for many loops, and 65535 is a valid port.
	s := Config{Store: store.Mem(0), FirstPort: 65535, LastPort: 65535, Loops: 4}
	open := func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
		return h.Listen(ctx, addr, c)
	}
	l, err := listen(t.Context(), testHooks{open: open, spread: true}, s, serverIP+":69")
	if err != nil || len(l.bindings[0].shards) != 1 || l.bindings[0].shards[0].conn.LocalAddr().Port() != 65535 {
		t.Fatalf("one port for four loops: %v", err)
	}
	_ = l.Close()
}

// A server may listen on several addresses, and answers from the one that the client used.
func TestSeveralAddresses(t *testing.T) {
	const second, third = "192.0.2.11", "2001:db8::11"
	for _, single := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			h := w.net.Host("192.0.2.10", second, third)
			s := Config{Store: w.disk, Loops: 2, SinglePort: single, Rate: -1}
			open := func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
				return h.Listen(ctx, addr, c)
			}
			ctx, stop := context.WithCancel(t.Context())
			l, err := listen(ctx, testHooks{open: open, spread: true}, s, "192.0.2.10:69", second+":1069", "["+third+"]:69")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- l.Serve(ctx) }()
			want := w.put("image", 3000)
			for i, at := range l.Addrs() {
				from := w.raw(map[bool]string{true: otherIP, false: "2001:db8::99"}[at.Addr().Is4()])
				from.To = at
				from.Send(tftptest.RRQ("image"))
				from.Want("first block", tftptest.Data(1, want[:512]))
				if from.To.Addr() != at.Addr() || single && from.To != at {
					t.Errorf("address %d: asked %v, answered by %v", i, at, from.To)
				}
				from.Send(tftptest.ErrorPacket(0, "enough"))
				from.Close()
			}
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
			if n := h.Open(); n != 0 {
				t.Errorf("%d sockets left open", n)
			}
			wantIdle(t, l)
		})
	}
}

// A server also works with sockets that are already open.
func TestListenOnOpenSockets(t *testing.T) {
	for _, single := range []bool{false, true} {
		mem := store.Mem(0)
		want := tftptest.Content("image", 3000)
		storetest.Put(t, mem, "image", want)
		conn, err := udp.Listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := Config{Store: mem, SinglePort: single}
		l, err := s.ListenAt(t.Context(), Place{Conns: []*udp.Conn{conn}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- l.Serve(ctx) }()
		var c tftpclient.Client
		here := store.Mem(0)
		res, err := c.Get(ctx, tftpclient.Target{Host: "127.0.0.1", Port: l.Addr().Port(), Name: "image"}, tftptest.Into(here, "image"))
		if err != nil || single != (res.Peer == l.Addr()) {
			t.Errorf("from %v: %v", res.Peer, err)
		}
		tftptest.WantFile(t, here, "image", want)
		c.Wait()
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	s := Config{Store: store.Mem(0)}
	if _, err := s.ListenAt(t.Context()); err == nil {
		t.Error("listens on nothing")
	}
}

// Blocks are not larger than the path to the peer carries unfragmented.
func TestBlockSizeFitsPath(t *testing.T) {
	tests := []struct {
		peer      string
		mtu, path int
		asked     string
		want      string // empty means that blksize is not confirmed
	}{
		{otherIP, 0, 1500, "65464", "1468"},
		{otherIP, 0, 1500, "1468", "1468"},
		{otherIP, 0, 1500, "1469", "1468"},
		{otherIP, 0, 1500, "512", "512"},
		{otherIP, 0, 9000, "65464", "8968"},
		{otherIP, 0, 65536, "65464", "65464"},
		{otherIP, 0, 0, "65464", "65464"}, // the path MTU is unknown
		{otherIP, -1, 1500, "65464", "65464"},
		{otherIP, 1400, 9000, "65464", "1368"},
		{otherIP, 20, 0, "1024", "8"},
		{"2001:db8::99", 0, 1500, "65464", "1448"},
		{"2001:db8::99", 1280, 0, "65464", "1228"},
	}
	for _, test := range tests {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			h := w.net.Host("192.0.2.10", "2001:db8::10")
			w.put("image", 100_000)
			s := Config{Store: w.disk, Loops: 1, MTU: test.mtu, Limits: transfer.Limits{BlockSize: 0}}
			open := func(ctx context.Context, addr netip.AddrPort, c udp.Config) (packetio.Socket, error) {
				return h.Listen(ctx, addr, c)
			}
			mtu := func(a netip.Addr) (int, error) {
				if test.path == 0 {
					return 0, syscall.ENETUNREACH
				}
				return test.path, nil
			}
			ctx, stop := context.WithCancel(t.Context())
			l, err := listen(ctx, testHooks{open: open, mtu: mtu}, s, ":69")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- l.Serve(ctx) }()
			p := w.raw(test.peer)
			defer p.Close()
			if p.To = addrPort("192.0.2.10", 69); netip.MustParseAddr(test.peer).Is6() {
				p.To = addrPort("2001:db8::10", 69)
			}
			p.Send(tftptest.RRQ("image", "blksize", test.asked))
			p.Want(fmt.Sprintf("%+v", test), tftptest.OACK("blksize", test.want))
			p.Send(tftptest.ErrorPacket(8, "enough"))
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// Requests from impossible addresses are not answered.
func TestImpossiblePeers(t *testing.T) {
	request := tftptest.RRQ("image")
	for _, peer := range []string{"192.0.2.1:0", "0.0.0.0:7", "224.0.0.1:7", "[ff02::1]:7", "[::]:7"} {
		m := udp.Message{Peer: netip.MustParseAddrPort(peer), Data: request}
		if _, fault, ok := new(Config).parseRequest(&m, request, addrPort(serverIP, transfer.Port)); ok || fault != nil {
			t.Errorf("a request from %s is taken in, or answered by %v", peer, fault)
		}
	}
	m := udp.Message{Peer: netip.MustParseAddrPort("192.0.2.1:1"), Data: request}
	if _, _, ok := new(Config).parseRequest(&m, request, addrPort(serverIP, transfer.Port)); !ok {
		t.Error("a good request is not taken in")
	}
}

// realPeer returns a peer on the loopback interface.
func realPeer(t *testing.T, l *Server) *tftptest.Peer {
	t.Helper()
	conn, err := udp.Listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return tftptest.NewPeer(t, conn, l.Addr())
}

// An answer comes from the address that the client used, not from another one of the host,
// because some clients accept no other.
func TestAnswersFromAddressAsked(t *testing.T) {
	if !udp.CanSharePort {
		t.Skip("this path does not learn the address that was asked")
	}
	mem := store.Mem(0)
	storetest.Put(t, mem, "image", []byte("image"))
	l := serveAt(t, testHooks{}, Config{Store: mem}, ":0")
	for _, ip := range []string{"127.0.0.1", "127.0.0.2", "127.9.8.7"} {
		p := realPeer(t, l)
		asked := netip.MustParseAddr(ip)
		p.To = netip.AddrPortFrom(asked, l.Addr().Port())
		p.Send(tftptest.RRQ("image"))
		p.Want("answer", tftptest.Data(1, []byte("image")))
		if p.To.Addr() != asked {
			t.Errorf("asked %v, answered from %v", asked, p.To)
		}
		p.Send(tftptest.ACK(1))
		p.To = netip.AddrPortFrom(asked, l.Addr().Port())
		p.Send(tftptest.RRQ("missing"))
		p.WantError("missing", transfer.FileNotFound)
		if p.To.Addr() != asked {
			t.Errorf("asked %v, refused from %v", asked, p.To)
		}
		p.To = netip.AddrPortFrom(asked, l.Addr().Port())
		p.Send([]byte{0, 77})
		p.WantError("nonsense", transfer.IllegalOperation)
		if p.To.Addr() != asked {
			t.Errorf("asked %v, answered from %v", asked, p.To)
		}
		here := store.Mem(0)
		var c tftpclient.Client
		if _, err := c.Get(context.Background(), tftpclient.Target{Host: ip, Port: l.Addr().Port(), Name: "image"}, tftptest.Into(here, "image")); err != nil {
			t.Error(err)
		}
		c.Wait()
	}
}
