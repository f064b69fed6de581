package proxydhcp

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

// A list of interfaces holds for a while. One that is unknown is looked for at most once a
// second, and one that has gone is forgotten.
func TestInterfacesComeAndGo(t *testing.T) {
	eth := Interface{Name: "eth0", Index: 2, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}}
	var there []Interface
	var failure error
	reads := 0
	now := time.Unix(1_000_000, 0)
	all := interfaces{list: func() ([]Interface, error) { reads++; return there, failure }}
	want := func(what string, index int, found bool, sofar int) {
		t.Helper()
		if got, ok := all.find(index, now); ok != found || ok && got.Name != "eth0" || reads != sofar {
			t.Errorf("%s: found %v %v after %d reads, want %v after %d", what, got.Name, ok, reads, found, sofar)
		}
	}
	want("at first", 2, false, 1)
	there = []Interface{eth}
	want("at once", 2, false, 1)
	now = now.Add(newInterface + time.Millisecond)
	want("after a second", 2, true, 2)
	now = now.Add(newInterface + time.Millisecond)
	want("a known one", 2, true, 2)
	now = now.Add(interfacesHold)
	failure = errors.New("no list")
	want("when it cannot be read", 2, true, 3)
	now, there, failure = now.Add(interfacesHold+time.Millisecond), nil, nil
	want("when it has gone", 2, false, 4)

	all = interfaces{names: []string{"eth1"}, list: func() ([]Interface, error) { return []Interface{eth}, nil }}
	if _, ok := all.find(2, now); ok {
		t.Error("an interface that is not named is found")
	}
}

// The address that clients get is that of their own network, if there is one.
func TestInterfaceAddress(t *testing.T) {
	i := Interface{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24"), netip.MustParsePrefix("198.51.100.9/24")}}
	for peer, want := range map[string]string{"0.0.0.0": "192.0.2.9", "198.51.100.77": "198.51.100.9", "203.0.113.1": "192.0.2.9"} {
		if got := i.address(netip.MustParseAddr(peer)); got.String() != want {
			t.Errorf("for %s: %v, want %s", peer, got, want)
		}
	}
}

// A broadcast address is that of no host. In a network of one or two addresses there is none.
func TestInterfaceHosts(t *testing.T) {
	i := Interface{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24"), netip.MustParsePrefix("198.51.100.8/31"), netip.MustParsePrefix("10.0.0.1/32")}}
	for addr, want := range map[string][2]bool{ // a host there, all hosts there
		"192.0.2.1": {true, false}, "192.0.2.255": {false, true}, "192.0.2.0": {false, true}, "203.0.113.1": {},
		"198.51.100.8": {true, false}, "198.51.100.9": {true, false}, "10.0.0.1": {true, false}, "255.255.255.255": {},
	} {
		a := netip.MustParseAddr(addr)
		if got := [2]bool{i.contains(a), i.broadcasts(a)}; got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
	}
	if all := (Interface{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/0")}}); !all.broadcasts(netip.MustParseAddr("255.255.255.255")) || !all.contains(netip.MustParseAddr("192.0.2.1")) {
		t.Error("a network of all addresses is wrong")
	}
}
