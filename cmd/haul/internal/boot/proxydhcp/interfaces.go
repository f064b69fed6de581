package proxydhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// An Interface is a network interface with an IPv4 address.
type Interface struct {
	Name  string
	Index int

	// Broadcasts says that the interface reaches several machines, which may be boot clients. A
	// tunnel does not.
	Broadcasts bool

	// Prefixes holds this machine's IPv4 addresses on the interface, each with the length of its
	// network's prefix.
	Prefixes []netip.Prefix
}

// address returns an address of this machine that the peer can reach: the one in the peer's network
// or, if the peer is not in any of the networks, the first one.
func (i Interface) address(peer netip.Addr) netip.Addr {
	for _, p := range i.Prefixes {
		if p.Contains(peer) {
			return p.Addr()
		}
	}
	return i.Prefixes[0].Addr()
}

// contains reports whether an address can belong to a host in one of the interface's networks.
func (i Interface) contains(a netip.Addr) bool {
	return slices.ContainsFunc(i.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) && !isBroadcast(p, a) })
}

// broadcasts reports whether an address is a broadcast address of one of the interface's networks.
func (i Interface) broadcasts(a netip.Addr) bool {
	return slices.ContainsFunc(i.Prefixes, func(p netip.Prefix) bool { return p.Contains(a) && isBroadcast(p, a) })
}

// isBroadcast reports whether an address reaches all hosts of network p (RFC 919 §7). The lowest
// address counts too, because some kernels treat it as a broadcast address.
func isBroadcast(p netip.Prefix, a netip.Addr) bool {
	hosts := uint32(1)<<(32-p.Bits()) - 1
	if p.Bits() > 30 {
		return false // such a network has no room for a broadcast address (RFC 3021)
	}
	bits := a.As4()
	host := binary.BigEndian.Uint32(bits[:]) & hosts
	return host == 0 || host == hosts
}

// These are intervals at which the list of interfaces is read. newInterface applies while packets
// arrive on an interface that is not in the list.
const (
	interfacesEvery = 5 * time.Second
	newInterface    = time.Second
)

// interfaces holds the interfaces on which a server answers. Interfaces may disappear and reappear.
// Any goroutine may call the methods. Only refresh and follow wait for the system.
type interfaces struct {
	names []string // names of the interfaces to answer on; empty means all interfaces but loopback
	list  func() ([]Interface, error)

	mu      sync.Mutex
	all     []Interface // guarded by mu
	read    time.Time   // when the latest reading of the list began; guarded by mu
	reading bool        // a goroutine is reading the list; guarded by mu
}

// find returns an interface by its index. If the index is not in the list, find starts to read the
// list again in the background, and returns false. So the first packet on a new interface gets no
// answer.
func (t *interfaces) find(index int, now time.Time) (Interface, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.lookUp(index)
	if !ok && !t.reading && now.Sub(t.read) > newInterface {
		t.read = now
		go t.refresh()
	}
	return found, ok
}

// follow reads the list again and again until done is closed. Otherwise, after a quiet time, the
// first packet could be answered with an outdated address of this machine.
func (t *interfaces) follow(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(interfacesEvery):
			t.refresh()
		}
	}
}

// refresh reads the list, unless another goroutine is already reading it.
func (t *interfaces) refresh() {
	t.mu.Lock()
	busy := t.reading
	if !busy {
		t.reading, t.read = true, time.Now()
	}
	t.mu.Unlock()
	if busy {
		return
	}
	all, err := t.list()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reading = false; err == nil { // if there was an error, keep the old list
		t.all = all
	}
}

// lookUp finds an interface in the current list. The caller holds mu.
func (t *interfaces) lookUp(index int) (Interface, bool) {
	at := slices.IndexFunc(t.all, func(i Interface) bool { return i.Index == index })
	if at < 0 || len(t.names) > 0 && !slices.Contains(t.names, t.all[at].Name) {
		return Interface{}, false
	}
	return t.all[at], true
}

// broadcasts reports whether an address is a broadcast address of one of this machine's networks.
func (t *interfaces) broadcasts(a netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.all, func(i Interface) bool { return i.broadcasts(a) })
}

// Interfaces returns the interfaces with these names that are up and have an IPv4 address. Without
// names, it returns all such interfaces except loopback. It returns an error if an interface with
// one of the names does not exist, or if there is no interface to return.
func Interfaces(names []string) ([]Interface, error) {
	all, err := listInterfaces()
	if err != nil {
		if errors.Is(err, syscall.EAFNOSUPPORT) {
			err = fmt.Errorf("%w: systemd's unit must allow AF_NETLINK (RestrictAddressFamilies=)", err)
		}
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, name := range names {
		if _, err := net.InterfaceByName(name); err != nil {
			return nil, fmt.Errorf("interface %s: %w; these can be named: %s", name, err, linkNames(all))
		}
	}
	all = slices.DeleteFunc(all, func(i Interface) bool { return len(names) > 0 && !slices.Contains(names, i.Name) })
	switch {
	case len(all) > 0:
		return all, nil
	case len(names) > 0:
		return nil, fmt.Errorf("interface %s: it is down, or has no IPv4 address: set it up first", strings.Join(names, ", "))
	}
	return nil, errors.New("no network interface is up and has an IPv4 address: set one up first")
}

// listInterfaces returns all interfaces that are up and have an IPv4 address, except loopback.
func listInterfaces() ([]Interface, error) {
	system, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	prefixes, err := networks(system)
	if err != nil {
		return nil, err
	}
	var all []Interface
	for _, s := range system {
		if s.Flags&net.FlagUp == 0 || s.Flags&net.FlagLoopback != 0 || len(prefixes[s.Index]) == 0 {
			continue
		}
		all = append(all, Interface{Name: s.Name, Index: s.Index, Broadcasts: s.Flags&net.FlagBroadcast != 0, Prefixes: prefixes[s.Index]})
	}
	return all, nil
}

// linkNames returns the names of interfaces, each with its first address, as one string.
func linkNames(links []Interface) string {
	var names []string
	for _, l := range links {
		names = append(names, l.Name+" "+l.Prefixes[0].Addr().String())
	}
	return strings.Join(names, ", ")
}
