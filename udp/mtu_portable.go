//go:build !linux || haul_portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

const ethernetMTU = 1500 // bytes; the largest payload of an Ethernet frame (IEEE 802.3)

// PathMTU returns the length in bytes of the largest IP packet that would reach peer without being
// fragmented, as far as this host knows. That is the MTU of the outgoing interface, or 1500 if that
// is unknown. PathMTU sends nothing.
func PathMTU(peer netip.Addr) (int, error) {
	if !peer.IsValid() {
		return 0, errors.New("path MTU: no peer")
	}
	// Connecting a UDP socket makes the system choose a route, and with it a local address.
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer.Unmap(), 9))
	conn, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return 0, fmt.Errorf("path MTU to %v: %w", peer, err)
	}
	defer conn.Close()
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return interfaceMTU(local.WithZone("")), nil
}

// interfaceMTU returns the MTU of the interface with the given address, or 1500 if no interface has
// that address.
func interfaceMTU(local netip.Addr) int {
	interfaces, err := net.Interfaces()
	if err != nil {
		return ethernetMTU
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err == nil && prefix.Addr().Unmap() == local {
				return i.MTU
			}
		}
	}
	return ethernetMTU
}
