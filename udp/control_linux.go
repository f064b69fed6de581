//go:build linux && !haul_portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// controlAlign is the alignment of control messages: the size of a long (CMSG_ALIGN in
// include/linux/socket.h).
const controlAlign = int(unsafe.Sizeof(uintptr(0)))

func align(n int) int { return (n + controlAlign - 1) &^ (controlAlign - 1) }

// A controlWriter appends control messages to b, which has room for them.
type controlWriter struct {
	b []byte
	n int // number of bytes of b in use
}

// add appends a control message with size bytes of data, all of them 0, and returns these bytes.
func (w *controlWriter) add(level, kind int32, size int) []byte {
	h := (*unix.Cmsghdr)(unsafe.Pointer(&w.b[w.n]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.SizeofCmsghdr + size)
	data := w.b[w.n+unix.SizeofCmsghdr:][:size]
	clear(data)
	w.n += unix.SizeofCmsghdr + align(size)
	return data
}

// setControl sets the control data of message i: the local address from which it is sent, and the
// size of the datagrams into which the kernel cuts it. v6 says that the socket is an IPv6 socket.
func (b *batch) setControl(i int, local netip.Addr, segment int, v6 bool) {
	h := &b.headers[i]
	if !local.IsValid() && segment == 0 {
		h.SetControllen(0)
		return
	}
	w := controlWriter{b: b.controls[i][:]}
	switch {
	case !local.IsValid():
	case v6:
		// struct in6_pktinfo holds the address and the index of the interface. For an IPv4 peer,
		// the kernel accepts an IPv4-mapped address (net/ipv4/ip_sockglue.c, ip_cmsg_send).
		info := w.add(unix.SOL_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo)
		addr := local.As16()
		copy(info, addr[:])
		binary.NativeEndian.PutUint32(info[16:], zones.index(local.Zone()))
	case local.Unmap().Is4():
		// struct in_pktinfo holds the index of the interface, the local address, and the
		// destination address in the header of a received datagram.
		info := w.add(unix.SOL_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo)
		addr := local.As4()
		copy(info[4:], addr[:])
	}
	if segment > 0 {
		binary.NativeEndian.PutUint16(w.add(unix.SOL_UDP, unix.UDP_SEGMENT, 2), uint16(segment))
	}
	h.SetControllen(w.n)
}

// cutControl parses the first control message in b, and returns the bytes after it as rest.
func cutControl(b []byte) (level, kind int32, data, rest []byte, ok bool) {
	if len(b) < unix.SizeofCmsghdr {
		return 0, 0, nil, nil, false
	}
	size := uint64(binary.NativeEndian.Uint32(b))
	if controlAlign == 8 {
		size = binary.NativeEndian.Uint64(b)
	}
	if size < unix.SizeofCmsghdr || size > uint64(len(b)) {
		return 0, 0, nil, nil, false
	}
	level = int32(binary.NativeEndian.Uint32(b[controlAlign:]))
	kind = int32(binary.NativeEndian.Uint32(b[controlAlign+4:]))
	data = b[unix.SizeofCmsghdr:size]
	return level, kind, data, b[min(align(int(size)), len(b)):], true
}

// parseControl parses the control data of a received message. It returns the local address to which
// the message was sent; the size of each datagram if several are glued together, and otherwise 0;
// and whether the message was a broadcast. It ignores other control messages, and stops at one that
// it cannot parse.
func parseControl(b []byte) (local netip.Addr, segment int, broadcast bool) {
	for {
		level, kind, data, rest, ok := cutControl(b)
		if !ok {
			return local, segment, broadcast
		}
		b = rest
		switch {
		case level == unix.SOL_UDP && kind == unix.UDP_GRO && len(data) >= 4:
			segment = max(0, int(int32(binary.NativeEndian.Uint32(data))))
		case level == unix.SOL_IP && kind == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			// data[4:] is the address to answer from. data[8:] is the destination in the header,
			// which may be a broadcast address. For datagrams received before the option was set
			// (see FromFile), both are 0.
			if addr := netip.AddrFrom4([4]byte(data[4:])); !addr.IsUnspecified() {
				local = addr
				broadcast = addr != netip.AddrFrom4([4]byte(data[8:]))
			}
		case level == unix.SOL_IPV6 && kind == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			// A socket for both IPv4 and IPv6 also gets this message for IPv4 datagrams, with the
			// destination in the header. Prefer the address to answer from.
			if !local.IsValid() {
				local = localAddress([16]byte(data), binary.NativeEndian.Uint32(data[16:]))
			}
		}
	}
}

// localAddress returns the address at which a datagram arrived. A link-local address gets the
// interface with the given index as its zone. For a multicast group, localAddress returns the zero
// address, because an answer cannot be sent from a group's address.
func localAddress(b [16]byte, index uint32) netip.Addr {
	addr := netip.AddrFrom16(b)
	switch {
	case addr.IsMulticast():
		return netip.Addr{}
	case addr.IsLinkLocalUnicast():
		return fromKernel(b, index)
	default:
		return addr.Unmap()
	}
}
