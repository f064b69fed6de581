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

// control sets a new socket's options. It runs before bind, so that no
// datagram comes in without what the options add to it.
func control(network string, raw syscall.RawConn, at netip.Addr, c Config) error {
	var err error
	if e := raw.Control(func(fd uintptr) { err = setOptions(int(fd), network == "udp6", at, c) }); e != nil {
		return e
	}
	return err
}

// setOptionsBound sets the options of a socket that is bound already.
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

// setOptions sets the options of a socket for the given address, zero if it is
// not known.
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
	// A packet that the kernel may fragment needs an ID from a counter shared
	// by all sockets, which takes a twentieth of the time to send a packet.
	// Where this is too strict it is undone: see sender.allowFragments.
	_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	if !c.Plain {
		// A kernel that cannot is found out by glues.
		_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	}
	return nil
}

// fixes reports whether a socket bound to an address has no other that packets
// reach it at, or leave it from. Then the kernel need not report it, nor the
// sender set it.
func fixes(at netip.Addr) bool {
	at = at.Unmap()
	return at.IsValid() && !at.IsUnspecified() && !at.IsMulticast() && !at.IsLinkLocalUnicast()
}

// setBuffer asks for a buffer of size bytes. Only the first way, which takes a
// privilege, passes the system's maximum; the second is cut to it silently.
func setBuffer(fd, name, force, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, size) // Limits reports the result
	}
}

// glues reports whether the socket receives datagrams glued together. Kernels
// before 5.12 could, but cannot answer the question; their UDP_GRO had bugs,
// and they go without.
func glues(fd int) bool {
	on, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO)
	return err == nil && on == 1
}

// cuts reports whether the kernel cuts a buffer into datagrams: since 4.18.
func cuts(fd int) bool {
	_, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT)
	return err == nil
}
