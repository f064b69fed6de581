package proxydhcp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// An Interface is a network interface with an address of IPv4.
type Interface struct {
	Name  string
	Index int

	// Prefixes are its networks of IPv4, with the address of this machine in each.
	Prefixes []netip.Prefix
}

// address returns the address of this machine that a peer can reach. Without a network of
// the peer's it is the first.
func (i Interface) address(peer netip.Addr) netip.Addr {
	for _, p := range i.Prefixes {
		if p.Contains(peer) {
			return p.Addr()
		}
	}
	return i.Prefixes[0].Addr()
}

// contains reports whether a peer is on one of the interface's networks.
func (i Interface) contains(peer netip.Addr) bool {
	return slices.ContainsFunc(i.Prefixes, func(p netip.Prefix) bool { return p.Contains(peer) })
}

// How long a list of interfaces holds. An interface that appears is looked up within the
// shorter time, however often packets come by it.
const (
	interfacesHold = 5 * time.Second
	newInterface   = time.Second
)

// interfaces are those that a server answers by. They may go and come back.
type interfaces struct {
	names []string // empty: all but loopback
	list  func() ([]Interface, error)
	all   []Interface
	read  time.Time
}

// find returns an interface by its index.
func (t *interfaces) find(index int, now time.Time) (Interface, bool) {
	found, ok := t.lookUp(index)
	if age := now.Sub(t.read); age > interfacesHold || !ok && age > newInterface {
		if all, err := t.list(); err == nil { // otherwise those from before stay
			t.all = all
		}
		t.read = now
		found, ok = t.lookUp(index)
	}
	return found, ok
}

func (t *interfaces) lookUp(index int) (Interface, bool) {
	at := slices.IndexFunc(t.all, func(i Interface) bool { return i.Index == index })
	if at < 0 || len(t.names) > 0 && !slices.Contains(t.names, t.all[at].Name) {
		return Interface{}, false
	}
	return t.all[at], true
}

// Interfaces returns the interfaces that are up and have an address of IPv4, those of these
// names, or without names all but loopback. A name that does not exist is an error, and so
// is an empty result.
func Interfaces(names []string) ([]Interface, error) {
	all, err := listInterfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, name := range names {
		if _, err := net.InterfaceByName(name); err != nil {
			return nil, fmt.Errorf("interface %s: %w", name, err)
		}
	}
	all = slices.DeleteFunc(all, func(i Interface) bool { return len(names) > 0 && !slices.Contains(names, i.Name) })
	switch {
	case len(all) > 0:
		return all, nil
	case len(names) > 0:
		return nil, fmt.Errorf("interface %s: it is down, or has no IPv4 address", strings.Join(names, ", "))
	}
	return nil, errors.New("no network interface is up and has an IPv4 address")
}

// listInterfaces returns all interfaces that are up and have an address of IPv4, without
// loopback.
func listInterfaces() ([]Interface, error) {
	system, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all []Interface
	for _, s := range system {
		if s.Flags&net.FlagUp == 0 || s.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := s.Addrs()
		if err != nil {
			continue // it has just gone
		}
		i := Interface{Name: s.Name, Index: s.Index}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
				i.Prefixes = append(i.Prefixes, p)
			}
		}
		if len(i.Prefixes) > 0 {
			all = append(all, i)
		}
	}
	return all, nil
}
