//go:build linux && !haul_portable

package udp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// refusals keeps the latest refusal until Read returns it: an ICMP error which says that the port
// of a peer is closed. A nil *refusals never has one.
//
// With IP_RECVERR, the kernel queues each ICMP error on the socket. It also makes the next send or
// receive fail with that error, even if that call is for another peer (ip(7)).
type refusals struct {
	last atomic.Pointer[net.OpError]
}

// known reports whether take would return a refusal.
func (r *refusals) known() bool { return r != nil && r.last.Load() != nil }

// take removes the latest refusal and returns it, or nil.
func (r *refusals) take() error {
	if r == nil || r.last.Load() == nil {
		return nil
	}
	if err := r.last.Swap(nil); err != nil {
		return err
	}
	return nil
}

// drain empties the socket's queue of ICMP errors, and reports whether it held any. If so, one of
// them may be the reason why the last call failed, and the caller should try that call again. The
// queue must not fill up, because its memory counts against the receive buffer.
func (r *refusals) drain(fd uintptr) bool {
	if r == nil {
		return false
	}
	control := make([]byte, 256)
	for found := false; ; found = true {
		refusal, more := nextError(fd, control)
		if !more {
			return found
		}
		if refusal != nil {
			r.last.Store(refusal)
		}
	}
}

// nextError takes one error from a socket's queue of ICMP errors. more is false if the queue was
// empty, and refusal is nil if the error was not a refusal.
func nextError(fd uintptr, control []byte) (refusal *net.OpError, more bool) {
	for {
		_, n, _, from, err := unix.Recvmsg(int(fd), nil, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, false
		}
		if !refused(control[:n]) {
			return nil, true
		}
		return &net.OpError{
			Op: "read", Net: "udp", Addr: udpAddr(from),
			Err: os.NewSyscallError("recvmmsg", unix.ECONNREFUSED),
		}, true
	}
}

// refused reports whether control data holds a refusal: an ICMP message of type 3 and code 3, or
// the corresponding message for IPv6 (RFC 792, RFC 4443 §3.1). Other errors about unreachable hosts
// do not count, because the host may be reachable again within a second.
func refused(b []byte) bool {
	for {
		level, kind, data, rest, ok := cutControl(b)
		if !ok {
			return false
		}
		b = rest
		v4 := level == unix.SOL_IP && kind == unix.IP_RECVERR
		v6 := level == unix.SOL_IPV6 && kind == unix.IPV6_RECVERR
		if (v4 || v6) && len(data) >= 4 {
			// struct sock_extended_err begins with the errno.
			return binary.NativeEndian.Uint32(data) == uint32(unix.ECONNREFUSED)
		}
	}
}

// udpAddr returns the destination of the datagram that caused an ICMP error.
func udpAddr(from unix.Sockaddr) net.Addr {
	var peer netip.AddrPort
	switch a := from.(type) {
	case *unix.SockaddrInet4:
		peer = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		peer = netip.AddrPortFrom(fromKernel(a.Addr, a.ZoneId), uint16(a.Port))
	}
	return net.UDPAddrFromAddrPort(peer)
}
