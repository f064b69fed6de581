//go:build linux && !haul_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// PathMTU returns the length in bytes of the largest IP packet that would reach peer without being
// fragmented, as far as this host knows. That is the MTU of the route, or less if a router has
// reported a smaller one (RFC 1191, RFC 8201). PathMTU sends nothing.
func PathMTU(peer netip.Addr) (int, error) {
	if !peer.IsValid() {
		return 0, errors.New("path MTU: no peer")
	}
	mtu, err := routeMTU(peer.Unmap())
	if err != nil {
		return 0, fmt.Errorf("path MTU to %v: %w", peer, err)
	}
	return mtu, nil
}

// routeMTU asks the kernel for the MTU of the route to peer. It asks with a connected socket,
// because an unconnected socket has no route.
func routeMTU(peer netip.Addr) (int, error) {
	const port = 9 // the discard service; any port works, because nothing is sent
	family, level, option := unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_MTU
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: port, Addr: peer.As16(), ZoneId: zones.index(peer.Zone())}
	if peer.Is4() {
		family, level, option = unix.AF_INET, unix.SOL_IP, unix.IP_MTU
		to = &unix.SockaddrInet4{Port: port, Addr: peer.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, to); err != nil {
		return 0, err
	}
	return unix.GetsockoptInt(fd, level, option)
}
