package proxydhcp

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// The interfaces are listed every few seconds, even without a packet. An interface with a new
// address answers from that one, and an interface that has disappeared is forgotten. An unknown
// interface causes at most one listing a second.
func TestInterfacesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eth := Interface{Name: "eth0", Index: 2, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}}
		var mu sync.Mutex
		var there []Interface // guarded by mu
		var failure error     // guarded by mu
		reads := 0            // guarded by mu
		set := func(links []Interface, err error) {
			mu.Lock()
			defer mu.Unlock()
			there, failure = links, err
		}
		all := interfaces{list: func() ([]Interface, error) {
			mu.Lock()
			defer mu.Unlock()
			reads++
			return there, failure
		}}
		want := func(what string, found bool, sofar int) {
			t.Helper()
			synctest.Wait()
			got, ok := all.find(2, time.Now())
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if ok != found || ok && got.Name != "eth0" || reads != sofar {
				t.Errorf("%s: found %v %v after %d reads, want %v after %d", what, got.Name, ok, reads, found, sofar)
			}
		}
		want("at first", false, 1)
		set([]Interface{eth}, nil)
		want("at once", false, 1)
		time.Sleep(newInterface + time.Millisecond)
		want("after a second", false, 2)
		want("a known one", true, 2)
		all.refresh() // as Serve does
		want("after a look for all", true, 3)
		done := make(chan struct{})
		defer close(done)
		go all.follow(done)
		set([]Interface{eth}, errors.New("no list"))
		time.Sleep(interfacesEvery + time.Millisecond)
		want("when it cannot be read", true, 4)
		eth.Prefixes = []netip.Prefix{netip.MustParsePrefix("198.51.100.9/24")}
		set([]Interface{eth}, nil)
		time.Sleep(interfacesEvery)
		synctest.Wait()
		if got, _ := all.find(2, time.Now()); got.address(netip.IPv4Unspecified()).String() != "198.51.100.9" {
			t.Errorf("after it has got another address, it has %v", got.Prefixes)
		}
		set(nil, nil)
		time.Sleep(interfacesEvery)
		want("when it has gone", false, 6)
		all.refresh()
		want("after a look that found none", false, 7)

		all = interfaces{names: []string{"eth1"}, all: []Interface{eth}, read: time.Now()}
		if _, ok := all.find(2, time.Now()); ok {
			t.Error("an interface that is not named is found")
		}
	})
}

// A system that is slow to list its interfaces delays no answer, and is not asked again meanwhile.
func TestSlowInterfaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t, Config{}, Interface{Name: "eth0", Index: 2, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}})
		reads := 0
		s.interfaces.list = func() ([]Interface, error) {
			reads++
			time.Sleep(time.Hour)
			return nil, errors.New("no list")
		}
		began := time.Now()
		for range 3 {
			e, _ := s.handle(fromX64(t, dhcp.Discover, dhcp.Addr{}), arrival{peer: netip.MustParseAddrPort("0.0.0.0:68"), to: broadcast, index: 2}, 67, nil)
			if waited := time.Since(began); e.Answer.Reason != pxe.Answered || waited != 0 {
				t.Errorf("%v after %v", e.Answer.Reason, waited)
			}
			s.handle(nil, arrival{index: 3}, 67, nil)
			time.Sleep(interfacesEvery + time.Second)
			began = time.Now()
		}
		if synctest.Wait(); reads != 1 {
			t.Errorf("the interfaces are listed %d times at once", reads)
		}
		time.Sleep(time.Hour) // no goroutine may remain
	})
}

// Clients get the address in their own network, if there is one.
func TestInterfaceAddress(t *testing.T) {
	i := Interface{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24"), netip.MustParsePrefix("198.51.100.9/24")}}
	for peer, want := range map[string]string{"0.0.0.0": "192.0.2.9", "198.51.100.77": "198.51.100.9", "203.0.113.1": "192.0.2.9"} {
		if got := i.address(netip.MustParseAddr(peer)); got.String() != want {
			t.Errorf("for %s: %v, want %s", peer, got, want)
		}
	}
}

// A broadcast address belongs to no host. A network of one or two addresses has none.
func TestInterfaceHosts(t *testing.T) {
	i := Interface{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24"), netip.MustParsePrefix("198.51.100.8/31"), netip.MustParsePrefix("10.0.0.1/32")}}
	for addr, want := range map[string][2]bool{ // whether it can belong to a host, and whether it is a broadcast address
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

// The networks of an interface agree with package net.
func TestNetworks(t *testing.T) {
	system, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	all, err := networks(system)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range system {
		if s.Flags&net.FlagLoopback == 0 {
			continue // it may change meanwhile
		}
		addrs, err := s.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		var want []netip.Prefix
		for _, a := range addrs {
			if p := netip.MustParsePrefix(a.String()); p.Addr().Is4() {
				want = append(want, p)
			}
		}
		if !slices.Equal(all[s.Index], want) {
			t.Errorf("%s has %v, want %v", s.Name, all[s.Index], want)
		}
	}
}
