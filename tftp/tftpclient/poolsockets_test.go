package tftpclient

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// A server for which there was no socket is found again without a search, however many servers
// there are. Each server is in only one list.
func TestPoolStuckServers(t *testing.T) {
	ss := newPoolSockets(socketSettings{private: true}, 0)
	servers := make([]*poolServer, 100)
	for i := range servers {
		addr := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		ss.enqueue(&poolRequest{addr: addr})
		servers[i] = ss.server(addr)
	}
	random := rand.New(rand.NewPCG(1, 1))
	step := func() {
		_, _, _ = ss.next() // a socket cannot be opened without room for one, so there is no error
		for range 50 {
			ss.retry(servers[random.IntN(len(servers))])
		}
		if random.IntN(4) == 0 {
			ss.unstick()
		}
	}
	for range 200 {
		step()
		ready := ss.ready.len()
		for i, s := range ss.stuck {
			if s.stuck != i+1 {
				t.Fatalf("server at place %d is said to be at %d", i+1, s.stuck)
			}
		}
		stuck := 0
		for _, s := range servers {
			if s.stuck > 0 {
				stuck++
			}
		}
		if stuck != len(ss.stuck) || stuck+ready != len(servers) {
			t.Fatalf("%d of %d servers are stuck, %d of them by their own word, and %d ready", len(ss.stuck), len(servers), stuck, ready)
		}
	}
	if n := testing.AllocsPerRun(100, step); n > 0 {
		t.Errorf("%v allocations a step", n)
	}
}
