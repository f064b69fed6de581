//go:build !linux

package proxydhcp

import (
	"net"
	"net/netip"
)

// networks returns the IPv4 networks of the given interfaces, by interface index, with the address
// of this machine in each.
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
