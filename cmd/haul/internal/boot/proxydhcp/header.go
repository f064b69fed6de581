package proxydhcp

import (
	"encoding/binary"
	"net/netip"
)

// headerLen is the length of a UDP header in bytes (RFC 768).
const headerLen = 8

// A header is the header of a UDP datagram. The checksum is not verified: a packet that another
// program on this machine sent may lack it, because kernels leave its computation to the network
// card.
type header struct {
	from, to uint16
	length   int // number of bytes of the header and the data
}

// parseHeader parses the header of a datagram, and reports whether the datagram is complete.
func parseHeader(datagram []byte) (h header, whole bool) {
	if len(datagram) < headerLen {
		return h, false
	}
	be := binary.BigEndian
	h = header{from: be.Uint16(datagram), to: be.Uint16(datagram[2:]), length: int(be.Uint16(datagram[4:]))}
	return h, h.length >= headerLen && h.length <= len(datagram)
}

// appendDatagram appends a UDP datagram with its checksum. Both addresses are IPv4.
func appendDatagram(b []byte, from, to netip.AddrPort, payload []byte) []byte {
	begin := len(b)
	be := binary.BigEndian
	b = be.AppendUint16(b, from.Port())
	b = be.AppendUint16(b, to.Port())
	b = be.AppendUint16(b, uint16(headerLen+len(payload)))
	b = append(b, 0, 0)
	b = append(b, payload...)
	sum := checksum(b[begin:], from.Addr(), to.Addr())
	be.PutUint16(b[begin+6:], sum)
	return b
}

// checksum returns the checksum of a UDP datagram whose checksum field is 0.
func checksum(datagram []byte, from, to netip.Addr) uint16 {
	const protocol = 17
	a, z := from.As4(), to.As4()
	sum := add(add(protocol+uint32(len(datagram)), a[:]), z[:])
	sum = add(sum, datagram)
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	if got := ^uint16(sum); got != 0 {
		return got
	}
	return 0xffff // because 0 would mean that there is no checksum
}

// add adds the 16-bit words of b to sum. If the last byte has no partner, it is padded with a zero.
func add(sum uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}
