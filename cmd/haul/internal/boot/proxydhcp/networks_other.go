//go:build !linux

package proxydhcp

import (
	"net"
	"net/netip"
)

// networks returns this machine's IPv4 addresses on the given interfaces, with the lengths of their
// networks' prefixes, by interface index.
func networks(system []net.Interface) (map[int][]netip.Prefix, error) {
	all := map[int][]netip.Prefix{}
	for _, s := range system {
		addrs, err := s.Addrs()
		if err != nil {
			continue // the interface has just disappeared
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
				all[s.Index] = append(all[s.Index], p)
			}
		}
	}
	return all, nil
}
