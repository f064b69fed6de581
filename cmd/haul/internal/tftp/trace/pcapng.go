package trace

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"time"
)

// These are numbers of the pcapng format (draft-ietf-opsawg-pcapng). Blocks are written in
// little-endian order, which the section header says.
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockStatistics = 5
	blockPacket     = 6

	byteOrderMagic = 0x1a2b3c4d
	linkTypeRaw    = 101 // packets begin with an IPv4 or IPv6 header

	optEnd           = 0
	optComment       = 1
	optApplication   = 4 // option of a section
	optName          = 2 // option of an interface
	optResolution    = 9
	optFlags         = 2 // option of a packet
	optDropCount     = 4
	optInterfaceDrop = 5 // option of statistics

	flagInbound  = 1
	flagOutbound = 2
)

// comment is stored in the capture. It says that the headers are not genuine.
const comment = "Recorded by haul at its sockets. IP and UDP headers are made up: addresses, ports and lengths are right, " +
	"an address that was not known is unspecified, and everything else is a default."

// Sizes of the headers, in bytes.
const (
	ipv4Header = 20
	ipv6Header = 40
	udpHeader  = 8
)

const (
	protocolUDP = 17
	hopLimit    = 64
)

// pcapng is the form for Wireshark: a section, an interface named haul with
// time in nanoseconds, and a block for each packet.
type pcapng struct{}

var le = binary.LittleEndian

func (pcapng) begin(b []byte) []byte {
	b, start := openBlock(b, blockSection)
	b = le.AppendUint32(b, byteOrderMagic)
	b = le.AppendUint16(b, 1) // version 1.0
	b = le.AppendUint16(b, 0)
	b = le.AppendUint64(b, 1<<64-1) // the section's length is not given
	b = appendPcapOption(b, optComment, comment)
	b = appendPcapOption(b, optApplication, "haul")
	b = closeBlock(b, start)

	b, start = openBlock(b, blockInterface)
	b = le.AppendUint16(b, linkTypeRaw)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint32(b, 0) // packets are not cut off
	b = appendPcapOption(b, optName, "haul")
	b = appendPcapOption(b, optResolution, "\x09") // units of 1e-9 s
	return closeBlock(b, start)
}

func (pcapng) packet(b []byte, q *queued) []byte {
	b, start := openBlock(b, blockPacket)
	b = le.AppendUint32(b, 0) // the first interface
	b = appendTime(b, q.Time)
	size := len(b)
	b = le.AppendUint64(b, 0)
	at := len(b)
	b = appendDatagram(b, &q.Packet)
	le.PutUint32(b[size:], uint32(len(b)-at))   // length of the captured bytes
	le.PutUint32(b[size+4:], uint32(len(b)-at)) // length of the packet on the wire
	b = pad(b, len(b)-at)
	flags := uint32(flagInbound)
	if q.Sent {
		flags = flagOutbound
	}
	b = le.AppendUint16(b, optFlags)
	b = le.AppendUint16(b, 4)
	b = le.AppendUint32(b, flags)
	if q.lost > 0 {
		b = appendCounter(b, optDropCount, q.lost)
	}
	return closeBlock(b, start)
}

func (pcapng) end(b []byte, lost int64) []byte {
	b, start := openBlock(b, blockStatistics)
	b = le.AppendUint32(b, 0)
	b = appendTime(b, time.Now())
	b = appendCounter(b, optInterfaceDrop, lost)
	return closeBlock(b, start)
}

// openBlock begins a block whose length closeBlock fills in.
func openBlock(b []byte, kind uint32) (_ []byte, start int) {
	start = len(b)
	b = le.AppendUint32(b, kind)
	return le.AppendUint32(b, 0), start
}

// closeBlock appends the end of the options and the block's length, and fills in the length at the
// beginning of the block.
func closeBlock(b []byte, start int) []byte {
	b = le.AppendUint32(b, optEnd)
	length := uint32(len(b) - start + 4)
	le.PutUint32(b[start+4:], length)
	return le.AppendUint32(b, length)
}

func appendPcapOption(b []byte, code uint16, value string) []byte {
	b = le.AppendUint16(b, code)
	b = le.AppendUint16(b, uint16(len(value)))
	return pad(append(b, value...), len(value))
}

func appendCounter(b []byte, code uint16, n int64) []byte {
	b = le.AppendUint16(b, code)
	b = le.AppendUint16(b, 8)
	return le.AppendUint64(b, uint64(n))
}

// pad appends the zeros that are needed after n bytes to reach a multiple of 4.
func pad(b []byte, n int) []byte {
	return append(b, "\x00\x00\x00"[:-n&3]...)
}

// appendTime appends the nanoseconds since 1970: first the upper 32 bits, then the lower.
func appendTime(b []byte, t time.Time) []byte {
	ns := uint64(max(t.UnixNano(), 0))
	if t.IsZero() {
		ns = 0 // UnixNano is undefined for the zero time
	}
	b = le.AppendUint32(b, uint32(ns>>32))
	return le.AppendUint32(b, uint32(ns))
}

// appendDatagram appends a packet with plausible headers.
func appendDatagram(b []byte, p *Packet) []byte {
	from, to := addresses(p)
	length := udpHeader + len(p.Data)
	if to.Addr().Is4() {
		b = appendIPv4(b, from.Addr(), to.Addr(), length)
	} else {
		b = appendIPv6(b, from.Addr(), to.Addr(), length)
	}
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = append(b, p.Data...)
	// The checksum covers a pseudo-header too: the addresses, the protocol and
	// the length (RFC 768, RFC 8200 §8.1).
	sum := sumAddr(sumAddr(protocolUDP+uint64(length), from.Addr()), to.Addr())
	c := ^fold(sumBytes(sum, b[start:]))
	if c == 0 {
		c = 0xffff // 0 would mean that there is no checksum
	}
	binary.BigEndian.PutUint16(b[start+6:], c)
	return b
}

// addresses returns the source and the destination of a packet. Both are of the same address family
// as the peer.
func addresses(p *Packet) (from, to netip.AddrPort) {
	peer, local := p.Peer.Addr().Unmap(), p.Local.Addr().Unmap()
	unknown := netip.IPv4Unspecified()
	if peer.Is6() {
		unknown = netip.IPv6Unspecified()
	}
	if !peer.IsValid() {
		peer = unknown
	}
	if !local.IsValid() || local.Is4() != peer.Is4() {
		local = unknown
	}
	from, to = netip.AddrPortFrom(peer, p.Peer.Port()), netip.AddrPortFrom(local, p.Local.Port())
	if p.Sent {
		from, to = to, from
	}
	return from, to
}

// appendIPv4 appends a header (RFC 791 §3.1). The total length fits into 16 bits, because no
// datagram has more than MaxDatagram bytes.
func appendIPv4(b []byte, from, to netip.Addr, payload int) []byte {
	start := len(b)
	b = append(b, 0x45, 0) // version 4, five words
	b = binary.BigEndian.AppendUint16(b, uint16(ipv4Header+payload))
	b = append(b, 0, 0, 0x40, 0) // no identification, and not to be fragmented (RFC 6864 §4.1)
	b = append(b, hopLimit, protocolUDP, 0, 0)
	src, dst := from.As4(), to.As4()
	b = append(append(b, src[:]...), dst[:]...)
	binary.BigEndian.PutUint16(b[start+10:], ^fold(sumBytes(0, b[start:])))
	return b
}

// appendIPv6 appends a header (RFC 8200 §3).
func appendIPv6(b []byte, from, to netip.Addr, payload int) []byte {
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(payload))
	b = append(b, protocolUDP, hopLimit)
	src, dst := from.As16(), to.As16()
	return append(append(b, src[:]...), dst[:]...)
}

// sumAddr adds an address to a checksum. An IPv4 address in 16 bytes begins with zeros and 0xffff,
// which is zero in one's complement.
func sumAddr(sum uint64, a netip.Addr) uint64 {
	b := a.As16()
	return sumBytes(sum, b[:])
}

// sumBytes adds bytes to an Internet checksum that is not yet folded (RFC 1071), eight at a time. A
// one's complement sum may be computed in any width.
func sumBytes(sum uint64, b []byte) uint64 {
	var carry uint64
	for ; len(b) >= 8; b = b[8:] {
		sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(b), carry)
	}
	var last [8]byte
	copy(last[:], b)
	sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(last[:]), carry)
	sum, carry = bits.Add64(sum, 0, carry)
	return sum + carry
}

// fold reduces a one's complement sum to 16 bits.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
