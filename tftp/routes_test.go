package tftp

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// manualRoutes returns a server with several shards. They take turns only when the test makes
// them.
func manualRoutes(shards int, s Config) *steppedServer {
	m := newSteppedServer(s)
	b := m.bindings[0]
	for range shards - 1 {
		b.shards = append(b.shards, newShard(b, &deadEnd{}, false))
	}
	m.share()
	m.now = m.began.Add(time.Minute)
	return m
}

// occupy makes a shard's loop spend a percentage of the span before now in a turn that ends now,
// which completes the span.
func (m *steppedServer) occupy(sh *shard, percent int) {
	o := &sh.occupied
	o.since, o.spent = m.now.Add(-shareSpan), 0
	o.turn(m.began, m.now.Add(-shareSpan*time.Duration(percent)/100), m.now)
}

// crowd passes n requests to a shard, so that they wait in its inbox.
func crowd(sh *shard, n int) {
	for range n {
		sh.push(Request{})
	}
}

// wantRoutes routes requests of several peers, and checks to which shard each is routed.
func (m *steppedServer) wantRoutes(t *testing.T, first int, want ...int) {
	t.Helper()
	b := m.bindings[0]
	for i, at := range want {
		if got := slices.Index(b.shards, b.route(m.now, &Request{Peer: peerAt(first + i)})); got != at {
			t.Fatalf("peer %d goes to shard %d, want %d", first+i, got, at)
		}
	}
}

// Loops are filled one after the other: see the beginning of routes.go.
func TestRouteFills(t *testing.T) {
	for _, tt := range []struct {
		name    string
		busy    []int // percentage of the last span that each loop spent in turns
		waiting []int // requests in the inbox
		after   time.Duration
		want    []int // shard of each peer, in order
	}{
		{"all idle", []int{0, 0, 0}, nil, 0, []int{0, 0, 0, 0}},
		{"just below", []int{fullShare - 1, 0, 0}, nil, 0, []int{0, 0, 0}},
		{"just full", []int{fullShare, 0, 0}, nil, 0, []int{1, 1, 1}},
		{"two full", []int{100, fullShare, 0}, nil, 0, []int{2, 2}},
		{"a gap", []int{100, 10, 100}, nil, 0, []int{1, 1}},
		{"the first has time", []int{10, 100, 100}, nil, 0, []int{0, 0}},
		{"all full", []int{100, 90, 80}, nil, 0, []int{0, 1, 2, 0, 1, 2}},
		{"many wait", []int{0, 0, 0}, []int{fullInbox, 0, 0}, 0, []int{1, 1}},
		{"not so many", []int{0, 0, 0}, []int{fullInbox - 1, 0, 0}, 0, []int{0, 0}},
		{"both", []int{0, 100, 0}, []int{fullInbox, 0, fullInbox - 1}, 0, []int{2, 2}},
		{"all full in some way", []int{0, 100, 100}, []int{maxInbox, 0, 0}, 0, []int{0, 1, 2, 0}},
		{"of late", []int{100, 100, 0}, nil, shareHolds - 1, []int{2}},
		{"of long ago", []int{100, 100, 0}, nil, shareHolds, []int{0}},
		{"many have waited long", []int{0, 0, 0}, []int{fullInbox, 0, 0}, time.Hour, []int{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := manualRoutes(3, Config{Store: &tftptest.Endless{Size: 100}})
			for i, percent := range tt.busy {
				m.occupy(m.bindings[0].shards[i], percent)
			}
			for i, n := range tt.waiting {
				crowd(m.bindings[0].shards[i], n)
			}
			m.now = m.now.Add(tt.after)
			m.wantRoutes(t, 0, tt.want...)
		})
	}
}

// If all loops are full, the one with the fewest routes is chosen, regardless of earlier choices.
func TestRouteFewest(t *testing.T) {
	m := manualRoutes(3, Config{Store: &tftptest.Endless{Size: 100}})
	b := m.bindings[0]
	m.wantRoutes(t, 0, 0, 0, 0, 0, 0)
	for _, sh := range b.shards {
		m.occupy(sh, 100)
	}
	m.wantRoutes(t, 100, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 0)
	b.routes.lost(peerAt(101))
	b.routes.lost(peerAt(101))    // has no effect the second time
	b.routes.release(peerAt(103)) // the route stays, because the peer's next request is on its way
	m.wantRoutes(t, 200, 2, 1)
	if n := len(b.routes.to); n != 17 {
		t.Errorf("%d routes, want 17", n)
	}
}

// The occupancy refers to the last whole span, and is never above 100 %.
func TestOccupancy(t *testing.T) {
	var o occupancy
	base := time.Now()
	at := base
	turn := func(rest, spend time.Duration) {
		began := at.Add(rest)
		at = began.Add(spend)
		o.turn(base, began, at)
	}
	turn(time.Second, time.Millisecond)
	if o.share.Load() != 0 {
		t.Errorf("after the first turn: %d %%", o.share.Load())
	}
	for range 4 {
		turn(time.Millisecond, 3*time.Millisecond)
	}
	if got := o.share.Load(); got != 75 {
		t.Errorf("three quarters: %d %%", got)
	}
	turn(0, time.Hour)
	if got := o.share.Load(); got < 99 {
		t.Errorf("an hour in one turn: %d %%", got)
	}
	turn(time.Hour, time.Millisecond)
	if got := o.share.Load(); got != 0 {
		t.Errorf("an hour of rest: %d %%", got)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 10_000 {
		turn(time.Duration(rng.IntN(3e6)), time.Duration(rng.IntN(3e6)))
		if share := o.share.Load(); share < 0 || share > 100 {
			t.Fatalf("%d %%", share)
		}
		if until := time.Duration(o.until.Load()); base.Add(until).After(at) || at.Sub(base.Add(until)) > shareSpan {
			t.Fatalf("known until %v before now", at.Sub(base.Add(until)))
		}
	}
}

// see takes a turn of a shard with n messages, and executes the jobs from it.
func (m *steppedServer) see(sh *shard, n int) {
	was := m.sh
	m.sh = sh
	m.turn(n)
	m.sh = was
}

// send passes a request to the server through a request socket.
func (m *steppedServer) send(peer netip.AddrPort, name string) {
	m.sendBy(peer, tftptest.RRQ(name))
}

func (m *steppedServer) sendBy(peer netip.AddrPort, b []byte) {
	m.bindings[0].dispatch(request(peer, b), &m.sh.count)
}

// wantRouted checks how many routes lead to each shard.
func (m *steppedServer) wantRouted(t *testing.T, what string, want ...int) {
	t.Helper()
	b, all := m.bindings[0], 0
	for i, sh := range b.shards {
		all += want[i]
		if sh.routed != want[i] {
			t.Errorf("%s: %d routes to shard %d, want %d", what, sh.routed, i, want[i])
		}
	}
	if len(b.routes.to) != all {
		t.Errorf("%s: %d routes, want %d", what, len(b.routes.to), all)
	}
}

// A repeated request is routed to the loop that has the transfer, as long as the transfer runs,
// even if other loops have more time by then.
func TestRouteOfRepeat(t *testing.T) {
	m := manualRoutes(2, Config{Store: &tftptest.Endless{Size: 100}})
	one, two := m.bindings[0].shards[0], m.bindings[0].shards[1]
	m.occupy(one, 100)
	m.send(peerAt(1), "image")
	m.send(peerAt(1), "image") // before the loop has seen the first request
	m.wantRouted(t, "asked twice", 0, 1)
	m.see(two, 0)
	m.see(two, 0)
	if len(two.sessions) != 1 || len(one.sessions) != 0 {
		t.Fatalf("%d and %d transfers", len(one.sessions), len(two.sessions))
	}
	m.now = m.now.Add(time.Second) // now the first loop has time
	m.occupy(two, 100)
	m.send(peerAt(1), "image")
	m.send(peerAt(1), "other") // it starts another transfer
	m.see(two, 0)
	m.see(two, 0)
	m.wantRouted(t, "anew", 0, 1)
	if s := two.sessions[peerAt(1)]; s == nil || s.request.Name != "other" {
		t.Fatal("the transfer is not where it was")
	}
	deliverTo(two, peerAt(1), tftptest.ACK(1))
	m.see(two, 1)
	m.see(two, 0)
	m.wantRouted(t, "delivered", 0, 0)
	m.occupy(two, 100)
	m.send(peerAt(1), "image")
	m.wantRouted(t, "another transfer", 1, 0)
	m.see(one, 0)
	m.see(one, 0)
	deliverTo(one, peerAt(1), tftptest.ACK(1))
	m.see(one, 1)
	m.see(one, 0)
	m.wantRouted(t, "delivered too", 0, 0)
}

// Routes are removed with their requests and transfers.
func TestRoutesVanish(t *testing.T) {
	denied := netip.MustParsePrefix("192.0.7.0/24")
	refuse := func(context.Context, *Request) (store.File, error) { return nil, errors.New("no") }
	for _, tt := range []struct {
		name   string
		server Config
		ask    []byte
		twice  bool // send the request twice, because a single one may be accepted
	}{
		{"denied", Config{Deny: []netip.Prefix{denied}}, tftptest.RRQ("image"), false},
		{"no such file", Config{Read: refuse}, tftptest.RRQ("image"), false},
		{"no uploads", Config{}, tftptest.WRQ("image"), false},
		{"no such name", Config{}, tftptest.RRQ("../image"), false},
		{"too many of one", Config{MaxPerClient: 1}, tftptest.RRQ("image"), true},
		{"too many", Config{MaxTransfers: 1}, tftptest.RRQ("image"), true},
	} {
		tt.server.Store = &tftptest.Endless{Size: 1 << 40}
		m := manualRoutes(2, tt.server)
		peers := []netip.AddrPort{netip.MustParseAddrPort("192.0.7.1:1000"), netip.MustParseAddrPort("192.0.7.1:1001")}
		for _, p := range peers {
			m.sendBy(p, tt.ask)
		}
		m.wantRouted(t, tt.name+", asked", 2, 0)
		m.see(m.sh, 0)
		m.see(m.sh, 0)
		want := 0
		if tt.twice {
			want = 1
		}
		if n := len(m.sh.sessions); n != want {
			t.Errorf("%s: %d transfers, want %d: the test no longer does what it should", tt.name, n, want)
		}
		m.wantRouted(t, tt.name, want, 0)
		m.halt(t)
	}
}

// A request for which there is no room leaves no route behind, unless its peer had one before.
func TestRoutesOfFullInbox(t *testing.T) {
	m := manualRoutes(1, Config{Store: &tftptest.Endless{Size: 1 << 40}, MaxTransfers: 10_000})
	m.send(peerAt(0), "image")
	m.see(m.sh, 0)
	m.see(m.sh, 0)
	for i := range maxInbox + 100 {
		m.send(peerAt(1+i), "image")
	}
	m.send(peerAt(0), "image")
	m.wantRouted(t, "full", 1+maxInbox)
	m.see(m.sh, 0)
	m.see(m.sh, 0)
	m.wantRouted(t, "taken in", 1+maxInbox)
	if n := m.Counters().TurnedAway[Overload]; n != 101 {
		t.Errorf("%d requests turned away, want 101", n)
	}
	m.halt(t)
}

// A client requests the next file after it has received one, and repeats the request because there
// is no answer yet. It gets the file once: both requests are routed to the same loop, even if that
// loop has ended the first transfer in between.
func TestRouteOfNextRequest(t *testing.T) {
	var m *steppedServer
	ended := false
	m = manualRoutes(2, Config{Store: &tftptest.Endless{Size: 100}, Hooks: Hooks{Ended: func(*Transfer) {
		if !ended { // a request socket passes the request on at this moment
			ended = true
			m.send(peerAt(1), "next")
		}
	}}})
	one, two := m.bindings[0].shards[0], m.bindings[0].shards[1]
	m.send(peerAt(1), "image")
	m.see(one, 0)
	m.see(one, 0)
	deliverTo(one, peerAt(1), tftptest.ACK(1))
	m.see(one, 1)
	if !ended || len(one.inbox.requests) != 1 {
		t.Fatalf("ended %v, %d requests wait: the test no longer does what it should", ended, len(one.inbox.requests))
	}
	m.occupy(one, 100)
	m.send(peerAt(1), "next")
	if n := len(two.inbox.requests); n != 0 {
		t.Errorf("%d requests went to another loop than the one before", n)
	}
	for _, sh := range []*shard{one, two} {
		m.see(sh, 0)
		m.see(sh, 0)
	}
	if n := len(one.sessions) + len(two.sessions); n != 1 {
		t.Errorf("%d transfers, want 1", n)
	}
}

// deliverTo puts a datagram into the first message of a shard's next turn.
func deliverTo(sh *shard, peer netip.AddrPort, b []byte) {
	sh.in[0] = *message(peer, b)
}

// One loop serves a few clients, and many clients use as many loops as they need.
func TestLoopsUsed(t *testing.T) {
	for _, tt := range []struct {
		clients     int
		least, most int // bounds of the number of loops with transfers
	}{
		{3, 1, 1},
		{40, 2, 4},
	} {
		const loops = 4
		var used sync.Map
		inWorld(t, func(w *simWorld, s *Config) {
			w.hooks.spread, s.Loops = false, loops
			w.net.Default = sim.Link{Latency: 5 * time.Millisecond}
			// Each sent datagram takes this much of a loop's time, and a lock-step client needs one
			// every 10 ms. So ten clients fill half of a loop's time.
			s.Hooks.Trace = func(_ time.Time, sent bool, _, local netip.AddrPort, _ []byte) {
				if sent && local.Port() != transfer.Port {
					used.Store(local.Port(), true)
					time.Sleep(500 * time.Microsecond)
				}
			}
		}, func(w *simWorld) {
			want := w.put("image", 100_000)
			var wg sync.WaitGroup
			for i := range tt.clients {
				time.Sleep(20 * time.Millisecond) // they are switched on one after the other
				wg.Go(func() {
					here := store.Mem(1 << 20)
					c := w.client()
					c.Window = 1
					if _, err := c.Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
						t.Errorf("client %d: %v", i, err)
					}
					tftptest.WantFile(t, here, "image", want)
				})
			}
			wg.Wait()
		})
		n := 0
		used.Range(func(any, any) bool { n++; return true })
		if n < tt.least || n > tt.most {
			t.Errorf("%d clients kept %d loops busy, want %d to %d", tt.clients, n, tt.least, tt.most)
		}
	}
}

// Even with many request sockets, repeats, refusals and peers that vanish, each peer has at most
// one transfer, and no route is left behind.
func TestRoutesManyDoors(t *testing.T) {
	for _, spread := range []bool{true, false} {
		var mu sync.Mutex
		live := map[netip.AddrPort]int{}
		begun := 0
		note := func(p netip.AddrPort, n int) {
			mu.Lock()
			defer mu.Unlock()
			live[p] += n
			begun += max(n, 0)
		}
		inWorld(t, func(w *simWorld, s *Config) {
			w.hooks.spread, s.Loops, s.MaxTransfers = spread, 4, 300
			s.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.0.0/28")}
			s.Hooks.Started = func(tr *Transfer) { tr.Value = true; note(tr.Peer, 1) }
			s.Hooks.Ended = func(tr *Transfer) {
				if tr.Value != nil {
					note(tr.Peer, -1)
				}
			}
		}, func(w *simWorld) {
			w.put("image", 5000)
			w.put("other", 5000)
			b := w.server.bindings[0]
			routed := func() int {
				b.routes.mu.Lock()
				defer b.routes.mu.Unlock()
				return len(b.routes.to)
			}
			var wg sync.WaitGroup
			const sockets, peers = 8, 128
			for socket := range sockets {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(socket), 1))
					count := &shardCounters{totals: &totals{}}
					for range 500 {
						// The kernel always assigns the same peers to a socket.
						peer := peerAt((socket*peers + rng.IntN(peers)) * 37)
						b.dispatch(request(peer, tftptest.RRQ([]string{"image", "other", "none"}[rng.IntN(3)])), count)
						if rng.IntN(20) == 0 {
							time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
						}
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			under := 0
			mu.Lock()
			for peer, n := range live {
				if n < 0 || n > 1 {
					t.Errorf("%v has %d transfers", peer, n)
				}
				under += n
			}
			if begun < 500 || under == 0 {
				t.Errorf("%d transfers begun, %d under way: the test no longer does what it should", begun, under)
			}
			mu.Unlock()
			if n := routed(); n != under {
				t.Errorf("%d transfers and %d routes", under, n)
			}
			time.Sleep(10 * time.Minute) // the peers have not answered, so all transfers end
			synctest.Wait()
			if n := routed(); n != 0 {
				t.Errorf("%d routes left", n)
			}
		})
	}
}

// request parses a packet as a request.
func request(peer netip.AddrPort, b []byte) Request {
	q, _, ok := new(Config).parseRequest(message(peer, b), b, addrPort(serverIP, transfer.Port))
	if !ok {
		panic("no request")
	}
	return q
}

// message returns one datagram.
func message(peer netip.AddrPort, b []byte) *udp.Message {
	return &udp.Message{Peer: peer, Data: bytes.Clone(b)}
}
