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

// control sets the options of a new socket. It runs before bind, so that the kernel reports the
// local address with every datagram.
func control(network string, raw syscall.RawConn, at netip.Addr, c Config) error {
	var err error
	if e := raw.Control(func(fd uintptr) { err = setOptions(int(fd), network == "udp6", at, c) }); e != nil {
		return e
	}
	return err
}

// setOptionsBound sets the options of a socket that another program has already bound.
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

// setOptions sets the options of a socket that is bound, or will be bound, to the address `at`. The
// zero address means that the address is unknown.
func setOptions(fd int, v6 bool, at netip.Addr, c Config) error {
	setBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, c.buffer())
	setBuffer(fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, c.buffer())
	type option struct {
		wanted      bool
		level, name int
		what        string
	}
	// An IPv6 socket accepts the IPv4 options too. They apply to its IPv4 peers.
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
	// A packet that may be fragmented needs an ID from a counter that all sockets share. That takes
	// a twentieth of the time of sending a packet, so fragments are forbidden.
	// sender.allowFragments allows them once a datagram is too long.
	_ = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	if !c.Plain {
		// The error is ignored, because the function glues finds out whether the kernel has the
		// option.
		_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	}
	return nil
}

// fixes reports whether a socket that is bound to this address uses it for all datagrams that it
// sends and receives. If so, the kernel need not report the local address, and the sender need not
// set it.
func fixes(at netip.Addr) bool {
	at = at.Unmap()
	return at.IsValid() && !at.IsUnspecified() && !at.IsMulticast() && !at.IsLinkLocalUnicast()
}

// setBuffer asks for a buffer of size bytes. With the option `force`, the size may exceed the
// system's maximum, but that needs a privilege. Without the privilege, setBuffer uses the option
// `name`, with which the kernel silently reduces size to that maximum.
func setBuffer(fd, name, force, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		// An error does not matter, because Limits reports the actual size.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, size)
	}
}

// glues reports whether the kernel glues received datagrams together (UDP_GRO). Kernels before 5.12
// can do so too, but with bugs. They do not report the option as set, so glues returns false for
// them.
func glues(fd int) bool {
	on, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO)
	return err == nil && on == 1
}

// cuts reports whether the kernel can cut a buffer into datagrams (UDP_SEGMENT), as Linux can since
// 4.18.
func cuts(fd int) bool {
	_, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT)
	return err == nil
}
