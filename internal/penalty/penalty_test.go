package penalty

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// start is the time at which tests begin. Any other time would do as well.
var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// try makes a connection that sends a number of wrong passwords. It returns the refusal, or nil if the
// connection and its passwords were not refused.
func try(t testing.TB, g *Guard, now time.Time, from netip.Addr, fails int) *Refusal {
	t.Helper()
	v, err := g.Admit(now, from)
	if err == nil {
		if err = v.Guess(now); err != nil {
			v.Succeed()
			v.End(now)
		}
	}
	if err != nil {
		r, ok := errors.AsType[*Refusal](err)
		if !ok {
			t.Fatalf("%v is no refusal", err)
		}
		return r
	}
	for range fails {
		v.Fail(now, BadLogin)
	}
	v.End(now)
	return nil
}

func TestThreshold(t *testing.T) {
	var g Guard
	a := addr("192.0.2.1")
	if r := try(t, &g, at(0), a, 2); r != nil {
		t.Fatal(r)
	}
	if r := try(t, &g, at(0), a, 1); r != nil {
		t.Errorf("10 s are below the threshold, but: %v", r)
	}
	r := try(t, &g, at(0), a, 0)
	if r == nil || r.Cause != WrongPasswords || r.For != 15*time.Second || r.Source.String() != "192.0.2.1/32" {
		t.Fatalf("after three failures: %+v", r)
	}
	if got := r.Error(); !strings.Contains(got, "192.0.2.1/32") || !strings.Contains(got, "15s") {
		t.Errorf("the refusal reads %q", got)
	}
	// The refusal lasts until nothing is owed, not only until less than the threshold is owed.
	if r := try(t, &g, at(14*time.Second), a, 0); r == nil || r.For != time.Second {
		t.Errorf("a second before the end: %+v", r)
	}
	if r := try(t, &g, at(15*time.Second), a, 0); r != nil {
		t.Errorf("at the end: %v", r)
	}
	if r := try(t, &g, at(0), addr("192.0.2.2"), 0); r != nil {
		t.Errorf("the neighbour: %v", r)
	}
}

// Failures that are far enough apart never cause a refusal, however many there are.
func TestDebtRunsOff(t *testing.T) {
	var g Guard
	for i := range 1000 {
		if r := try(t, &g, at(time.Duration(i)*10*time.Second), addr("192.0.2.1"), 1); r != nil {
			t.Fatalf("failure %d, ten seconds after the one before: %v", i, r)
		}
	}
}

// Each time that a source is refused, the cost of its failures doubles, up to a limit. Time without
// failures lowers it again.
func TestPenaltiesGrow(t *testing.T) {
	var g Guard
	a := addr("192.0.2.1")
	now := at(0)
	var waits []time.Duration
	for range 9 {
		for {
			if r := try(t, &g, now, a, 1); r != nil {
				waits = append(waits, r.For)
				now = now.Add(r.For)
				break
			}
		}
	}
	want := []time.Duration{15, 20, 20, 40, 80, 160, 320, 320, 320}
	for i := range want {
		if waits[i] != want[i]*time.Second {
			t.Fatalf("waits of %v, want %v (seconds)", waits, want)
		}
	}

	now = now.Add(6 * calm)
	if r := try(t, &g, now, a, 2); r != nil {
		t.Error(r)
	}
	if r := try(t, &g, now, a, 0); r != nil {
		t.Errorf("six calm periods later two failures cost: %v", r)
	}

	v, err := g.Admit(now, addr("192.0.2.99"))
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		v.Fail(now, Malformed)
	}
	v.End(now)
	if r := try(t, &g, now, addr("192.0.2.99"), 0); r == nil || r.For != Longest {
		t.Errorf("no source owes more than %v: %v", Longest, r)
	}
}

func TestOffences(t *testing.T) {
	tests := []struct {
		o     Offence
		until int // largest number of offences that does not cause a refusal
	}{{BadLogin, 2}, {NoLogin, 14}, {TooSlow, 1}, {Malformed, 0}}
	for _, test := range tests {
		for n := range test.until + 2 {
			var g Guard
			v, err := g.Admit(at(0), addr("192.0.2.1"))
			if err != nil {
				t.Fatal(err)
			}
			for range n {
				v.Fail(at(0), test.o)
			}
			v.Succeed()
			v.End(at(0))
			if r := try(t, &g, at(0), addr("192.0.2.1"), 0); (r != nil) != (n > test.until) {
				t.Errorf("%d times offence %d: %v", n, test.o, r)
			}
		}
	}
}

// A visit that ends without a login and without an offence costs a little. A visit that has logged in
// costs nothing.
func TestSilentVisits(t *testing.T) {
	var g Guard
	for i := range 15 {
		if r := try(t, &g, at(0), addr("192.0.2.1"), 0); r != nil {
			t.Fatalf("visit %d: %v", i, r)
		}
	}
	if r := try(t, &g, at(0), addr("192.0.2.1"), 0); r == nil {
		t.Error("15 silent visits cost nothing")
	}
	for i := range 100 {
		v, err := g.Admit(at(0), addr("192.0.2.200"))
		if err != nil {
			t.Fatalf("login %d: %v", i, err)
		}
		v.Succeed()
		v.End(at(0))
		v.End(at(0)) // has no effect
	}
	if c, h := g.Live(); c != 0 || h != 0 {
		t.Errorf("%d connections and %d handshakes are left", c, h)
	}
}

// A successful login must not reduce the debt for wrong guesses at other accounts.
func TestSuccessPaysNothingBack(t *testing.T) {
	var g Guard
	a := addr("192.0.2.1")
	for i := range 10 {
		if r := try(t, &g, at(0), a, 1); r != nil {
			if i != 3 {
				t.Errorf("refused after %d failures", i)
			}
			return
		}
		v, err := g.Admit(at(0), a)
		if err != nil {
			t.Fatalf("a login after %d failures: %v", i+1, err)
		}
		v.Succeed()
		v.End(at(0))
	}
	t.Error("ten failures, each followed by a login, cost nothing")
}

// An offence costs the network around a source an eighth of what it costs the source, and the site
// around that network an eighth of that.
func TestNetworks(t *testing.T) {
	tests := []struct {
		name   string
		source func(i int) netip.Addr
		free   int    // number of attempts, each from another source, until the network is refused
		net    string // the refused network
		next   string // an address in the same network that did nothing
		other  string // an address just outside
	}{
		{"IPv4", func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}) },
			24, "198.51.100.0/24", "198.51.100.250", "198.51.101.1"},
		{"IPv6 links", func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, 0, byte(i)})
		}, 24, "2001:db8:1::/56", "2001:db8:1:ff::1", "2001:db8:1:100::1"},
		{"IPv6 sites", func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, 1, byte(i), 0})
		}, 192, "2001:db8:1::/48", "2001:db8:1:ffff::1", "2001:db8:2::1"},
		{"one link", func(i int) netip.Addr {
			return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: byte(i)})
		}, 3, "2001:db8::/64", "2001:db8::ffff:1", "2001:db8:0:1::1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var g Guard
			for i := range test.free {
				if r := try(t, &g, at(0), test.source(i), 1); r != nil {
					t.Fatalf("attempt %d: %v", i, r)
				}
			}
			if r := try(t, &g, at(0), addr(test.next), 0); r == nil || r.Source.String() != test.net {
				t.Errorf("after %d attempts %s gets %v, want a refusal for %s", test.free, test.next, r, test.net)
			}
			if r := try(t, &g, at(0), addr(test.other), 0); r != nil {
				t.Errorf("%s is outside: %v", test.other, r)
			}
		})
	}
}

func TestAddressForms(t *testing.T) {
	var g Guard
	if r := try(t, &g, at(0), addr("::ffff:192.0.2.1"), 3); r != nil {
		t.Fatal(r)
	}
	if r := try(t, &g, at(0), addr("192.0.2.1"), 0); r == nil {
		t.Error("an address written as IPv6 is another source")
	}
	if r := try(t, &g, at(0), addr("fe80::1%eth0"), 3); r != nil {
		t.Fatal(r)
	}
	if r := try(t, &g, at(0), addr("fe80::2%eth1"), 0); r == nil {
		t.Error("a zone makes another source")
	}
	// If the address is unknown, offences have no cost.
	for range 10 {
		if r := try(t, &g, at(0), netip.Addr{}, 100); r != nil {
			t.Fatal(r)
		}
	}
	e := Guard{Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for range 10 {
		if r := try(t, &e, at(0), addr("10.1.2.3"), 100); r != nil {
			t.Fatal(r)
		}
	}
	if r := try(t, &e, at(0), addr("11.1.2.3"), 3); r != nil {
		t.Fatal(r)
	}
	if r := try(t, &e, at(0), addr("11.1.2.3"), 3); r == nil {
		t.Error("the exemption covers others")
	}
}

// visits admits n connections from an address, or returns the refusal.
func visits(g *Guard, from netip.Addr, n int) (vs []*Visit, err error) {
	for range n {
		v, err := g.Admit(at(0), from)
		if err != nil {
			return vs, err
		}
		vs = append(vs, v)
	}
	return vs, nil
}

func wantCause(t *testing.T, err error, want Cause) {
	t.Helper()
	if r, ok := errors.AsType[*Refusal](err); !ok || r.Cause != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestLimits(t *testing.T) {
	g := Guard{MaxConns: 9, MaxConnsPerSource: 4, MaxHandshakes: 7, MaxHandshakesPerSource: 3}
	a, err := visits(&g, addr("192.0.2.1"), 4)
	wantCause(t, err, TooManyHandshakesOf)
	a[0].Succeed()
	a[0].Succeed() // the second call changes nothing
	_, err = visits(&g, addr("192.0.2.1"), 2)
	wantCause(t, err, TooManyOfSource)
	_, err = visits(&g, addr("198.51.100.1"), 3)
	if err != nil {
		t.Error(err)
	}
	// Six handshakes are under way already, three for each of the two addresses above.
	_, err = visits(&g, addr("203.0.113.1"), 2)
	wantCause(t, err, TooManyHandshakes)
	if c, h := g.Live(); c != 8 || h != 7 {
		t.Errorf("%d connections, %d handshakes; want 8 and 7", c, h)
	}
	a[1].Succeed()
	if _, err = visits(&g, addr("203.0.113.1"), 1); err != nil {
		t.Error(err)
	}
	a[2].Succeed()
	_, err = visits(&g, addr("203.0.113.1"), 1)
	wantCause(t, err, TooManyConns)
	a[0].End(at(0))
	a[1].End(at(0))
	if _, err = visits(&g, addr("203.0.113.2"), 1); err != nil {
		t.Error(err)
	}
}

// All addresses of the network around a source may together have four times as many handshakes as one
// source.
func TestNetworkHandshakes(t *testing.T) {
	var g Guard
	for i := range handshakesPerNetwork {
		if _, err := visits(&g, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), DefaultMaxHandshakesPerSource); err != nil {
			t.Fatal(err)
		}
	}
	_, err := g.Admit(at(0), addr("192.0.2.200"))
	wantCause(t, err, TooManyHandshakesOf)
	if _, err := g.Admit(at(0), addr("192.0.3.200")); err != nil {
		t.Error(err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	var g Guard
	var all []*Visit
	for i := range 90 {
		v, err := g.Admit(at(0), netip.AddrFrom4([4]byte{10, byte(i), 0, 1}))
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			v.Succeed()
		}
		all = append(all, v)
	}
	for _, v := range all {
		v.End(at(0))
		v.Succeed() // too late to count
	}
	if c, h := g.Live(); c != 0 || h != 0 || len(g.live) != 0 {
		t.Errorf("left: %d connections, %d handshakes, %d sources", c, h, len(g.live))
	}
}

// Wrong passwords do not prevent a source from connecting, for example to log in with a key. A
// source that connects without logging in is refused for any method.
func TestPasswordsAndVisitsAreApart(t *testing.T) {
	var g Guard
	a := addr("192.0.2.1")
	v, err := g.Admit(at(0), a)
	if err != nil {
		t.Fatal(err)
	}
	var began []*Lockout
	for range 4 {
		if r := v.Fail(at(0), BadLogin); r != nil {
			began = append(began, r)
		}
	}
	if len(began) != 1 || began[0].Cause != WrongPasswords || began[0].For != 15*time.Second {
		t.Errorf("four wrong passwords: refused %v", began)
	}
	wantCause(t, v.Guess(at(0)), WrongPasswords)
	v.End(at(0))
	if v, err = g.Admit(at(0), a); err != nil {
		t.Fatal("a visit after wrong passwords:", err)
	}
	wantCause(t, v.Guess(at(0)), WrongPasswords)
	v.Succeed()
	v.End(at(0))
	for i := range 15 {
		if v, err = g.Admit(at(0), a); err != nil {
			t.Fatalf("visit %d: %v", i, err)
		}
		if r := v.End(at(0)); (r != nil) != (i == 14) {
			t.Errorf("the end of visit %d: %v", i, r)
		}
	}
	_, err = g.Admit(at(0), a)
	wantCause(t, err, Penalized)
}

// A source in an exempt network may use all connections: only the limits for all sources together
// apply to it.
func TestExemptHaveNoLimitOfTheirOwn(t *testing.T) {
	g := Guard{MaxConns: 20, MaxConnsPerSource: 2, MaxHandshakesPerSource: 1, Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	vs, err := visits(&g, addr("10.1.2.3"), 21)
	wantCause(t, err, TooManyConns)
	if len(vs) != 20 {
		t.Errorf("%d connections", len(vs))
	}
}
