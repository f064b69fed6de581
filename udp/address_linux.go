//go:build linux && !haul_portable

package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setPeer sets the destination address of message i. v6 says that the socket is an IPv6 socket.
func (b *batch) setPeer(i int, peer netip.AddrPort, v6 bool) {
	addr := peer.Addr()
	h, name := &b.headers[i], &b.names[i]
	if !addr.IsValid() {
		h.Namelen = 0 // sending then fails with EDESTADDRREQ; an address family of 0 would mean the local host
		return
	}
	port := (*[2]byte)(unsafe.Pointer(&name.Port))
	binary.BigEndian.PutUint16(port[:], peer.Port())
	if !v6 && addr.Unmap().Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		v4.Family, v4.Addr = unix.AF_INET, addr.As4()
		h.Namelen = unix.SizeofSockaddrInet4
		return
	}
	name.Family, name.Flowinfo = unix.AF_INET6, 0
	name.Addr = addr.As16() // IPv4-mapped if the address is an IPv4 address
	name.Scope_id = zones.index(addr.Zone())
	h.Namelen = unix.SizeofSockaddrInet6
}

// peer returns the source address of message i.
func (b *batch) peer(i int) netip.AddrPort {
	name := &b.names[i]
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&name.Port))[:])
	switch name.Family {
	case unix.AF_INET:
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), port)
	case unix.AF_INET6:
		return netip.AddrPortFrom(fromKernel(name.Addr, name.Scope_id), port)
	}
	return netip.AddrPort{}
}

// fromKernel converts an address that the kernel wrote in IPv6 form. zone is the index of an
// interface, or 0.
func fromKernel(b [16]byte, zone uint32) netip.Addr {
	addr := netip.AddrFrom16(b).Unmap()
	if zone == 0 {
		return addr
	}
	return addr.WithZone(zones.name(zone))
}
