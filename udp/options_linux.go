//go:build linux && !haul_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanSharePort reports whether several sockets with [Config.ReusePort] may listen on one port, so
// that each receives from its own share of the peers.
const CanSharePort = true

// control sets a new socket's options. It runs before bind, so that the kernel adds the requested
// information to every datagram.
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
	// An IPv6 socket accepts the IPv4 options too, for its IPv4 peers.
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
	// If the kernel may fragment a packet, it needs an ID from a counter that all sockets share.
	// That takes a twentieth of the time to send a packet, so forbid fragments. If that turns out
	// to be too strict, sender.allowFragments permits them again.
	_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	if !c.Plain {
		// The function glues detects whether the kernel has the option.
		_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	}
	return nil
}

// fixes reports whether a socket bound to this address uses it for all datagrams, sent and
// received. If so, the kernel need not report the address, and the sender need not set it.
func fixes(at netip.Addr) bool {
	at = at.Unmap()
	return at.IsValid() && !at.IsUnspecified() && !at.IsMulticast() && !at.IsLinkLocalUnicast()
}

// setBuffer asks for a buffer of size bytes. The option force may exceed the system's maximum but
// needs a privilege. Without it, setBuffer uses the option name, which the kernel silently limits
// to that maximum.
func setBuffer(fd, name, force, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, size) // Limits reports the result
	}
}

// glues reports whether the kernel glues received datagrams together (UDP_GRO). Kernels before 5.12
// can do that but do not report it. Their UDP_GRO has bugs, so glues treats them as if they did not
// have it.
func glues(fd int) bool {
	on, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO)
	return err == nil && on == 1
}

// cuts reports whether the kernel can cut a buffer into datagrams, as it does since 4.18.
func cuts(fd int) bool {
	_, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT)
	return err == nil
}
