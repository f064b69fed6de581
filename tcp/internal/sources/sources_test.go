package sources

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/haul-project/haul/internal/repeat"
)

var sourcesSeed = flag.Uint64("sources.seed", 0, "seed of TestSourcesModel; 0 takes a random one")

func TestSourcesKeys(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "::192.0.2.1", false},
		{"0.0.0.0", "::", false},
		{"::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1", "fe80::2", false},
		{"fe80::1%eth0", "fe80::1%eth0", true},
		{"fe80::1", "0:0:0:1::", false},
		{"::1", "::2", true},
	} {
		if got := sourceAddr(netip.MustParseAddr(tt.a)) == sourceAddr(netip.MustParseAddr(tt.b)); got != tt.same {
			t.Errorf("%s and %s are one source: %v, want %v", tt.a, tt.b, got, tt.same)
		}
	}
}

func TestSourcesLimit(t *testing.T) {
	s := New(2)
	one, same, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("192.0.2.1")
	enter := func(a netip.Addr, want bool) {
		t.Helper()
		if got := s.Enter(a); got != want {
			t.Errorf("enter(%v) is %v, want %v", a, got, want)
		}
	}
	enter(one, true)
	enter(same, true)
	enter(one, false)
	enter(same, false)
	enter(other, true)
	if n := s.conns(same); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	s.Leave(one)
	enter(same, true)
	enter(one, false)
	s.Leave(same)
	s.Leave(same)
	s.Leave(other)
	for _, a := range []netip.Addr{one, other} {
		if n := s.conns(a); n != 0 {
			t.Errorf("%v has %d connections left", a, n)
		}
	}
	for range 5 { // peers of a Unix socket
		enter(netip.Addr{}, true)
	}
	s.Leave(netip.Addr{})
	defer func() {
		if recover() == nil {
			t.Error("a source left that had not entered")
		}
	}()
	s.Leave(one)
}

// The table behaves like a map, for any sequence of calls.
func TestSourcesModel(t *testing.T) {
	seed := *sourcesSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	repeat.OnFailure(t, fmt.Sprintf("-sources.seed=%d", seed))
	const most = 3
	for round := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, round))
		s := New(most)
		model := map[netip.Addr]int{}
		var live []netip.Addr
		crowd := 1 + r.IntN(1<<r.IntN(12)) // number of addresses
		coming := 50                       // percentage of the steps in which a connection arrives
		for step := range 20_000 {
			if step%2000 == 0 {
				coming = 20 + r.IntN(70)
			}
			if len(live) == 0 || r.IntN(100) < coming {
				n := r.IntN(crowd)
				a := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
				if got, want := s.Enter(a), model[a] < most; got != want {
					t.Fatalf("round %d, step %d: enter is %v with %d connections", round, step, got, model[a])
				} else if got {
					model[a]++
					live = append(live, a)
				}
				continue
			}
			i := r.IntN(len(live))
			a := live[i]
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			s.Leave(a)
			if model[a]--; model[a] == 0 {
				delete(model, a)
			}
		}
		for n := range crowd {
			a := netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)})
			if got := s.conns(a); got != model[a] {
				t.Fatalf("round %d: %v has %d connections, want %d", round, a, got, model[a])
			}
		}
		wantBounded(t, s, len(model))
	}
}

// conns returns how many connections the source of an address has.
func (s *Table) conns(a netip.Addr) int {
	source := sourceAddr(a)
	part := s.shard(source)
	part.mu.Lock()
	defer part.mu.Unlock()
	return part.conns[source]
}

// wantBounded checks that a table counts n sources, and that its maps never had many more.
func wantBounded(t *testing.T, s *Table, n int) {
	t.Helper()
	used := 0
	for i := range s.shards {
		p := &s.shards[i]
		used += len(p.conns)
		if p.peak > max(fewestSources, 8*len(p.conns)) {
			t.Errorf("a map for %d sources has %d now", p.peak, len(p.conns))
		}
	}
	if used != n {
		t.Errorf("%d sources are counted, want %d", used, n)
	}
}

// After a flood the memory is returned.
func TestSourcesShrink(t *testing.T) {
	s := New(1)
	const flood = 100_000
	at := func(n int) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, byte(n >> 16), byte(n >> 8), byte(n)})
	}
	for n := range flood {
		if !s.Enter(at(n)) {
			t.Fatalf("%v was refused", at(n))
		}
	}
	wantBounded(t, s, flood)
	for n := range flood {
		s.Leave(at(n))
	}
	wantBounded(t, s, 0)
}

func TestSourcesConcurrent(t *testing.T) {
	const most, goroutines, turns = 3, 8, 2000
	s := New(most)
	var inside [16]atomic.Int32
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range turns {
				n := r.IntN(len(inside))
				a := netip.AddrFrom4([4]byte{192, 0, 2, byte(n)})
				if !s.Enter(a) {
					continue
				}
				if now := inside[n].Add(1); now > most {
					t.Errorf("%d connections of %v, and %d may be", now, a, most)
				}
				inside[n].Add(-1)
				s.Leave(a)
			}
		})
	}
	all.Wait()
	wantBounded(t, s, 0)
}

// A connection does not allocate, whether its source is known or not.
func TestSourcesAllocs(t *testing.T) {
	s := New(10)
	known := netip.MustParseAddr("192.0.2.1")
	s.Enter(known)
	var more [1000]netip.Addr
	for i := range more {
		more[i] = netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, byte(i >> 8), byte(i)})
	}
	for _, a := range more[:len(more)/2] {
		s.Enter(a)
	}
	n := 0
	got := testing.AllocsPerRun(1000, func() {
		s.Enter(known)
		s.Leave(known)
		a, b := more[n%len(more)], more[(n+len(more)/2)%len(more)]
		s.Leave(a)
		s.Enter(b)
		n++
	})
	if got != 0 {
		t.Errorf("%v allocations for two connections", got)
	}
}

func BenchmarkSources(b *testing.B) {
	s := New(1 << 20)
	a := netip.MustParseAddr("2001:db8::1")
	b.ReportAllocs()
	for b.Loop() {
		s.Enter(a)
		s.Leave(a)
	}
}
