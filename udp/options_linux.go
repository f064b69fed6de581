//go:build linux && !haul_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanSharePort reports whether several sockets with [Config.ReusePort] may
// listen on one port, each receiving from its own share of the peers.
const CanSharePort = true

// control sets a new socket's options. It runs before bind, so that every datagram comes with the
// information that the options add.
func control(network string, raw syscall.RawConn, at netip.Addr, c Config) error {
	var err error
	if e := raw.Control(func(fd uintptr) { err = setOptions(int(fd), network == "udp6", at, c) }); e != nil {
		return e
	}
	return err
}

// setOptionsBound sets the options of a socket that is already bound.
func setOptionsBound(raw syscall.RawConn, c Config) error {
	var err error
	e := raw.Control(func(fd uintptr) {
		var domain, shared int
		if domain, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
			return
		}
		if shared, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT); err != nil {
			return
		}
		if c.ReusePort && shared == 0 {
			err = errors.New("bound without SO_REUSEPORT, so no other socket can share its port; " +
				"set ReusePort=yes in the socket unit, or do not share")
			return
		}
		err = setOptions(int(fd), domain == unix.AF_INET6, netip.Addr{}, c)
	})
	return errors.Join(e, err)
}

// setOptions sets the options of a socket for the given address, which is zero if unknown.
func setOptions(fd int, v6 bool, at netip.Addr, c Config) error {
	setBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, c.buffer())
	setBuffer(fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, c.buffer())
	type option struct {
		wanted      bool
		level, name int
		what        string
	}
	// An IPv6 socket takes the IPv4 options too, for its IPv4 peers.
	for _, o := range []option{
		{c.ReusePort, unix.SOL_SOCKET, unix.SO_REUSEPORT, "share the port"},
		{!fixes(at), unix.SOL_IP, unix.IP_PKTINFO, "learn local addresses"},
		{v6 && !fixes(at), unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, "learn local addresses"},
		{c.Refusals, unix.SOL_IP, unix.IP_RECVERR, "learn of refusals"},
		{c.Refusals && v6, unix.SOL_IPV6, unix.IPV6_RECVERR, "learn of refusals"},
	} {
		if !o.wanted {
			continue
		}
		if err := unix.SetsockoptInt(fd, o.level, o.name, 1); err != nil {
			return fmt.Errorf("%s: %w", o.what, err)
		}
	}
	// A packet that the kernel may fragment needs an ID from a counter shared by all sockets, which
	// takes a twentieth of the time to send a packet. If this setting is too strict, it is undone:
	// see sender.allowFragments.
	_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	if !c.Plain {
		// If the kernel lacks the option, glues finds out.
		_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	}
	return nil
}

// fixes reports whether a socket bound to an address sends and receives with that address only.
// Then the kernel need not report the address, and the sender need not set it.
func fixes(at netip.Addr) bool {
	at = at.Unmap()
	return at.IsValid() && !at.IsUnspecified() && !at.IsMulticast() && !at.IsLinkLocalUnicast()
}

// setBuffer asks for a buffer of size bytes. Only the first option, which needs a privilege, can
// exceed the system's maximum; the second is silently limited to it.
func setBuffer(fd, name, force, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, size) // Limits reports the result
	}
}

// glues reports whether the socket receives datagrams glued together. Kernels before 5.12 support
// it but cannot report it; their UDP_GRO had bugs, so they are treated as without it.
func glues(fd int) bool {
	on, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO)
	return err == nil && on == 1
}

// cuts reports whether the kernel can cut a buffer into datagrams, as it does since 4.18.
func cuts(fd int) bool {
	_, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT)
	return err == nil
}
