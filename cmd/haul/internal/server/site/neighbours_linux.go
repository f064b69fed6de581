package site

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"syscall"
)

// NeighboursSupported says whether [KernelNeighbours] can read this system's neighbour table.
const NeighboursSupported = true

// These constants are from linux/neighbour.h. Package syscall lacks them.
const (
	ndmsgLen      = 12 // size of struct ndmsg
	ndmsgState    = 8  // offset of ndm_state in struct ndmsg
	ndaDst        = 1  // attribute for the protocol address
	ndaLladdr     = 2  // attribute for the hardware address
	nudIncomplete = 0x01
	nudFailed     = 0x20
	nudNoARP      = 0x40 // for multicast and loopback, where the kernel sends no query
)

var errNetlink = errors.New("a message from the kernel is cut off")

// readNeighbours asks the kernel for the neighbours of both address families. It returns at most
// `most` of them.
func readNeighbours(most int) (map[netip.Addr]MAC, error) {
	table := map[netip.Addr]MAC{}
	twice := map[netip.Addr]bool{} // addresses that have more than one hardware address
	for _, family := range []int{syscall.AF_INET, syscall.AF_INET6} {
		b, err := syscall.NetlinkRIB(syscall.RTM_GETNEIGH, family)
		if err != nil {
			return nil, os.NewSyscallError("netlink RTM_GETNEIGH", err)
		}
		if err := addNeighbours(table, twice, b, most); err != nil {
			return nil, err
		}
	}
	return table, nil
}

// addNeighbours adds the neighbours in the netlink messages b to table. If an address has two
// different hardware addresses, addNeighbours removes it from table, and records it in twice.
func addNeighbours(table map[netip.Addr]MAC, twice map[netip.Addr]bool, b []byte, most int) error {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return errNetlink
	}
	for _, m := range messages {
		if m.Header.Type != syscall.RTM_NEWNEIGH {
			continue
		}
		addr, mac, ok := parseNeighbour(m.Data)
		if !ok || twice[addr] {
			continue
		}
		known, ok := table[addr]
		switch {
		case ok && known != mac:
			delete(table, addr)
			twice[addr] = true
		case !ok && len(table)+len(twice) < most:
			table[addr] = mac
		}
	}
	return nil
}

// parseNeighbour reads an RTM_NEWNEIGH message after its header. ok reports whether the message
// describes a neighbour whose hardware address is known.
func parseNeighbour(b []byte) (addr netip.Addr, mac MAC, ok bool) {
	if len(b) < ndmsgLen {
		return addr, mac, false
	}
	if state := binary.NativeEndian.Uint16(b[ndmsgState:]); state&(nudIncomplete|nudFailed|nudNoARP) != 0 {
		return addr, mac, false
	}
	for b = b[ndmsgLen:]; len(b) >= syscall.SizeofRtAttr; {
		size := int(binary.NativeEndian.Uint16(b))
		if size < syscall.SizeofRtAttr || size > len(b) {
			return addr, mac, false
		}
		value := b[syscall.SizeofRtAttr:size]
		switch binary.NativeEndian.Uint16(b[2:]) {
		case ndaDst:
			addr, _ = netip.AddrFromSlice(value)
		case ndaLladdr:
			if len(value) == len(mac) {
				copy(mac[:], value)
			}
		}
		b = b[min((size+3)&^3, len(b)):] // skip the padding: each attribute begins at a multiple of 4
	}
	return addr, mac, addr.IsValid() && mac != MAC{}
}
