package penalty

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/repeat"
)

var seed = flag.Uint64("seed", 0, "the seed of one simulation to run again")

// seeds returns the seeds to simulate. If the test fails, it prints how to repeat it with one seed.
func seeds(t *testing.T, n uint64) []uint64 {
	if *seed != 0 {
		return []uint64{*seed}
	}
	first := uint64(time.Now().UnixNano())
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	repeat.OnFailure(t, "-seed=N") // the message of each failure contains the seed, which is N
	return out
}

// Whatever the number of guessers, their networks and their behaviour, each of them gets only a
// limited number of guesses, and all users who stay below the threshold can log in.
func TestSimulatedGuessers(t *testing.T) {
	for _, s := range seeds(t, 5) {
		r := rand.New(rand.NewPCG(s, s))
		var g Guard
		now := start
		guesses := map[netip.Addr]int{}
		var honest int
		for range 20000 {
			now = now.Add(time.Duration(r.IntN(200)) * time.Millisecond)
			a := netip.AddrFrom4([4]byte{203, 0, byte(r.IntN(4)), byte(r.IntN(4))})
			if v, err := g.Admit(now, a); err == nil && v.Guess(now) != nil {
				v.Succeed()
				v.End(now)
			} else if err == nil {
				n := 1 + r.IntN(6)
				for range n {
					v.Fail(now, BadLogin)
				}
				guesses[a] += n
				v.End(now)
			}
			if r.IntN(10) == 0 {
				v, err := g.Admit(now, netip.AddrFrom4([4]byte{192, 0, 2, byte(r.IntN(200))}))
				if err != nil {
					t.Fatalf("seed %d: an honest user is refused: %v", s, err)
				}
				if r.IntN(20) == 0 {
					v.Fail(now, BadLogin) // the user has made a typing error
				}
				v.Succeed()
				v.End(now)
				honest++
			}
		}
		// The simulated time is about 2,000 s. It has room for the first refusals, which are shorter,
		// and for 3 refusals of 320 s. Without the guard, there would be some 4,000 guesses from each
		// address.
		for a, n := range guesses {
			if n > 100 {
				t.Errorf("seed %d: %v had %d guesses in %v", s, a, n, now.Sub(start))
			}
		}
		if honest < 1000 {
			t.Errorf("seed %d: only %d honest logins were simulated", s, honest)
		}
	}
}

// An attacker who is refused cannot clear the debt by failing once from each of many other
// addresses.
func TestEviction(t *testing.T) {
	var g Guard
	attacker := addr("203.0.113.7")
	now := start
	for range 3 { // let the attacker be refused three times
		for try(t, &g, now, attacker, 1) == nil {
		}
		now = now.Add(20 * time.Second)
	}
	for try(t, &g, now, attacker, 1) == nil {
	}
	other := func(i int) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(1 + i>>16), byte(i >> 8), byte(i), 1})
	}
	for i := range 3 * maxSources {
		if r := try(t, &g, now, other(i), 1); r != nil {
			t.Fatal(r)
		}
	}
	for i, table := range g.debts[forPasswords][ipv4] {
		if len(table.byNet) > maxSources || len(table.queue) != len(table.byNet) {
			t.Errorf("table %d holds %d networks, %d in its queue; at most %d", i, len(table.byNet), len(table.queue), maxSources)
		}
	}
	if r := try(t, &g, now, attacker, 0); r == nil {
		t.Fatal("the attacker is forgotten")
	}

	// Failures from many IPv6 addresses, which are easy to get, do not clear the debt either.
	for i := range 2 * maxSources {
		a := netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 16), byte(i >> 8), byte(i)})
		_ = try(t, &g, now, a, 3)
	}
	if r := try(t, &g, now, attacker, 0); r == nil {
		t.Fatal("the attacker is forgotten for IPv6")
	}

	// Debts that are forgotten are removed from the table.
	now = now.Add(100 * time.Hour)
	for i := range maxSources {
		_ = try(t, &g, now.Add(time.Duration(i)*time.Minute), other(4*maxSources+i), 1)
	}
	if n := len(g.debts[forPasswords][ipv4][0].byNet); n > 8 {
		t.Errorf("%d debts are kept, of which all but one are paid", n)
	}
}

// The map and the queue of a table always have the same entries, and the queue is in order.
func TestQueueInvariant(t *testing.T) {
	for _, s := range seeds(t, 5) {
		r := rand.New(rand.NewPCG(s, s))
		var tab table
		now := start
		for range 1000 {
			now = now.Add(time.Duration(r.IntN(30)) * time.Second)
			net := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(100))}), 32)
			o := Offence(r.IntN(4))
			before := tab.refused(now, net)
			tab.fail(now, net, o.cost())
			if after := tab.refused(now, net); after < before || after > Longest {
				t.Fatalf("seed %d: refused for %v before a failure, %v after", s, before, after)
			}
			for i, d := range tab.queue {
				if d.index != i || tab.byNet[d.net] != d || d.strikes > maxStrikes {
					t.Fatalf("seed %d: place %d holds %+v", s, i, d)
				}
				if i > 0 && d.forgotten().Before(tab.queue[(i-1)/2].forgotten()) {
					t.Fatalf("seed %d: place %d is forgotten before the one above it", s, i)
				}
			}
		}
	}
}

// If the clock is set back, no source is refused for longer than a penalty may last.
func TestClockSetBack(t *testing.T) {
	var g Guard
	a := addr("192.0.2.1")
	_ = try(t, &g, at(24*time.Hour), a, 3)
	if r := try(t, &g, at(0), a, 0); r == nil || r.For != Longest {
		t.Errorf("got %v, want a refusal for %v", r, Longest)
	}
	if r := try(t, &g, at(Longest), a, 0); r != nil {
		t.Errorf("%v later: %v", Longest, r)
	}
}

// Admit allocates little memory, because anybody can cause a call by connecting.
func TestAdmitAllocates(t *testing.T) {
	var g Guard
	a := addr("192.0.2.1")
	n := testing.AllocsPerRun(1000, func() {
		v, err := g.Admit(start, a)
		if err != nil {
			t.Fatal(err)
		}
		v.Succeed()
		v.End(start)
	})
	if n > 8 {
		t.Errorf("%v allocations for a connection", n)
	}
}
