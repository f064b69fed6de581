package link

import (
	"encoding/binary"
	"errors"
)

// The layout of the header that a TUN device puts before each packet: struct virtio_net_hdr of
// include/uapi/linux/virtio_net.h, in the machine's byte order.
const (
	prefixLen = 10

	prefixFlags     = 0 // byte
	prefixKind      = 1 // byte: gso_type
	prefixHeader    = 2 // uint16: hdr_len
	prefixSegment   = 4 // uint16: gso_size
	prefixSumStart  = 6 // uint16: csum_start
	prefixSumOffset = 8 // uint16: csum_offset

	flagNeedsSum = 1 // the checksum field holds only the sum of the pseudo header; the kernel adds the rest

	kindNone  = 0
	kindTCP4  = 1
	kindTCP6  = 4
	kindUDP   = 5 // VIRTIO_NET_HDR_GSO_UDP_L4
	kindECN   = 0x80
	kindsMask = 0x7f
)

const (
	ipv4Header = 20 // without options
	ipv6Header = 40
	udpHeader  = 8
	tcpHeader  = 20 // without options

	protoTCP = 6
	protoUDP = 17

	// maxHeaders is the largest size, in bytes, of the headers before a segment's payload. IPv4 and
	// TCP with all of their options have 120 bytes, and IPv6 with extensions seldom has more.
	maxHeaders = 256
)

// maxPacket is the largest number of bytes that a device hands over at once, including the prefix:
// by default Linux combines packets up to 64 KiB, not counting IPv6's header.
const maxPacket = prefixLen + 1<<16 + ipv6Header

// A shape describes how a packet from a device divides into the packets that would be on a wire.
// All positions are in bytes from the beginning of the IP header.
type shape struct {
	length    int // length of the whole packet in bytes
	header    int // bytes of headers, which each wire packet repeats; 0 if there is only one wire packet
	transport int // position of the UDP or TCP header
	segment   int // bytes of payload in each wire packet but the last; 0 if there is only one
	count     int // number of wire packets, at least 1
}

// wire returns the length of wire packet i, counted from 0, in bytes.
func (s *shape) wire(i int) int {
	if s.count == 1 {
		return s.length
	}
	return s.header + min(s.segment, s.length-s.header-i*s.segment)
}

var errMalformed = errors.New("malformed packet from the device")

// parse returns the shape of a packet that begins with the prefix.
func parse(b []byte) (shape, error) {
	if len(b) < prefixLen+ipv4Header {
		return shape{}, errMalformed
	}
	prefix, packet := b[:prefixLen], b[prefixLen:]
	s := shape{length: len(packet), count: 1}
	segment := int(binary.NativeEndian.Uint16(prefix[prefixSegment:]))
	kind := prefix[prefixKind] & kindsMask
	if kind == kindNone || segment == 0 {
		return s, nil
	}
	s.transport = int(binary.NativeEndian.Uint16(prefix[prefixSumStart:]))
	if s.transport < ipv4Header || s.transport+udpHeader > len(packet) {
		return shape{}, errMalformed
	}
	switch kind {
	case kindUDP:
		s.header = s.transport + udpHeader
	case kindTCP4, kindTCP6:
		if s.transport+tcpHeader > len(packet) {
			return shape{}, errMalformed
		}
		s.header = s.transport + int(packet[s.transport+12]>>4)*4
	default:
		return shape{}, errMalformed
	}
	if kind != kindUDP && s.header < s.transport+tcpHeader || s.header > maxHeaders || s.header >= len(packet) {
		return shape{}, errMalformed
	}
	s.segment = segment
	s.count = (len(packet) - s.header + segment - 1) / segment
	return s, nil
}

// multicast reports whether a packet is addressed to a multicast group. Kernels send such packets
// by themselves when an address is new. They are of no use here, because a link has exactly one
// host at each side.
func multicast(packet []byte) bool {
	if packet[0]>>4 == 6 && len(packet) >= ipv6Header {
		return packet[24] == 0xff
	}
	return packet[16]>>4 == 0xe
}

// cut returns the packet that carries `count` wire packets of b, from number `first` on. head has
// the prefix and the headers, and is written to room, which has at least prefixLen+maxHeaders
// bytes. payload is a part of b. If all wire packets are wanted, cut returns b unchanged as head.
func cut(b []byte, s *shape, first, count int, room []byte) (head, payload []byte) {
	if count == s.count {
		return b, nil
	}
	head = room[:prefixLen+s.header]
	copy(head, b)
	from := prefixLen + s.header + first*s.segment
	payload = b[from:min(from+count*s.segment, len(b))]
	packet := head[prefixLen:]
	length := s.header + len(payload)
	if packet[0]>>4 == 4 {
		fixIPv4(packet, length, first)
	} else {
		binary.BigEndian.PutUint16(packet[4:], uint16(length-ipv6Header))
	}
	udp := head[prefixKind]&kindsMask == kindUDP
	before := len(b) - prefixLen - s.transport // the length that the checksum covers
	if udp {
		binary.BigEndian.PutUint16(packet[s.transport+4:], uint16(length-s.transport))
	} else {
		fixTCP(packet[s.transport:], first, first*s.segment, first+count == s.count)
	}
	sum := s.transport + int(binary.NativeEndian.Uint16(head[prefixSumOffset:]))
	if sum+2 <= len(packet) {
		fixPseudoSum(packet[sum:], before, length-s.transport)
	}
	if count == 1 {
		head[prefixKind] = kindNone
		binary.NativeEndian.PutUint16(head[prefixSegment:], 0)
	} else if first > 0 {
		head[prefixKind] &^= kindECN // only the first segment keeps the flag CWR
	}
	binary.NativeEndian.PutUint16(head[prefixHeader:], uint16(s.header))
	return head, payload
}

// fixIPv4 sets the length, the identification and the header checksum in a segment's IPv4 header.
func fixIPv4(packet []byte, length, index int) {
	binary.BigEndian.PutUint16(packet[2:], uint16(length))
	id := binary.BigEndian.Uint16(packet[4:])
	binary.BigEndian.PutUint16(packet[4:], id+uint16(index))
	packet[10], packet[11] = 0, 0
	end := int(packet[0]&15) * 4
	var sum uint32
	for i := 0; i+1 < min(end, len(packet)); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[i:]))
	}
	binary.BigEndian.PutUint16(packet[10:], ^fold(sum))
}

// fixTCP advances a segment's sequence number. Only the last segment keeps FIN and PSH, and only
// the first one keeps CWR (RFC 3168 §6.1.2).
func fixTCP(tcp []byte, index, offset int, last bool) {
	const fin, psh, cwr = 0x01, 0x08, 0x80
	seq := binary.BigEndian.Uint32(tcp[4:])
	binary.BigEndian.PutUint32(tcp[4:], seq+uint32(offset))
	if !last {
		tcp[13] &^= fin | psh
	}
	if index > 0 {
		tcp[13] &^= cwr
	}
}

// fixPseudoSum corrects the sum of a pseudo header, which contains the transport length, from the
// length `before` to the length `after` (RFC 1624 §3, without the complements). The checksum field
// holds this sum if the kernel has to add the rest.
func fixPseudoSum(field []byte, before, after int) {
	sum := uint32(binary.BigEndian.Uint16(field)) + uint32(^uint16(before)) + uint32(uint16(after))
	binary.BigEndian.PutUint16(field, fold(sum))
}

// fold reduces a sum to 16 bits with end-around carry (RFC 1071 §4.1).
func fold(sum uint32) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}
