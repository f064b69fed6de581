package proxydhcp

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
)

// A datagram reads back as it was written, and its checksum conforms to RFC 768.
func TestDatagram(t *testing.T) {
	from, to := netip.MustParseAddrPort("192.0.2.9:67"), netip.MustParseAddrPort("255.255.255.255:68")
	for _, payload := range [][]byte{nil, {1}, []byte("odd"), bytes.Repeat([]byte{0xff}, 300)} {
		b := appendDatagram([]byte("before"), from, to, payload)[len("before"):]
		h, whole := parseHeader(b)
		if !whole || h.from != 67 || h.to != 68 || !bytes.Equal(b[headerLen:h.length], payload) {
			t.Errorf("%d bytes are read as %+v, %v", len(payload), h, whole)
		}
		// With the checksum in it the sum has all bits set, so that its complement is 0.
		if sum := checksum(b, from.Addr(), to.Addr()); sum != 0xffff {
			t.Errorf("%d bytes: the sum with the checksum is %#x", len(payload), sum)
		}
	}
	// Computed by hand: the addresses, the protocol, the ports, the lengths and the payload.
	b := appendDatagram(nil, netip.MustParseAddrPort("1.2.3.4:1"), netip.MustParseAddrPort("5.6.7.8:2"), []byte{0, 9})
	const sum = 0x0102 + 0x0304 + 0x0506 + 0x0708 + 17 + 10 + 1 + 2 + 10 + 9
	if got := uint16(b[6])<<8 | uint16(b[7]); got != 0xffff-sum {
		t.Errorf("the checksum is %#x, want %#x", got, 0xffff-sum)
	}
}

// Truncated datagrams, and those with impossible lengths, are not complete.
func TestHeaderIsNotWhole(t *testing.T) {
	for _, b := range [][]byte{nil, make([]byte, 7), {0, 67, 0, 68, 0, 7, 0, 0}, {0, 67, 0, 68, 0, 9, 0, 0}, {0, 67, 0, 68, 255, 255, 0, 0, 1}} {
		if h, whole := parseHeader(b); whole {
			t.Errorf("% x is taken as %+v", b, h)
		}
	}
	// The padding of a frame may follow the datagram.
	if h, whole := parseHeader([]byte{0, 67, 0, 68, 0, 9, 0, 0, 1, 0, 0}); !whole || h.length != 9 {
		t.Errorf("with padding: %+v, %v", h, whole)
	}
}

// A raw socket gets the IP header before the datagram, including options. A header that claims to
// be longer than all received bytes is rejected.
func TestPayloadBehindIPHeader(t *testing.T) {
	from, to := netip.MustParseAddrPort("192.0.2.9:67"), netip.MustParseAddrPort("255.255.255.255:67")
	datagram := appendDatagram(nil, from, to, []byte("packet"))
	s := &socket{raw: true, port: 67}
	for _, test := range []struct {
		words byte // length of the header, in its first byte
		bytes int  // received bytes of the header
		whole bool
	}{{5, 20, true}, {6, 24, true}, {15, 60, true}, {15, 20, false}, {0, 20, false}} {
		b := append(make([]byte, test.bytes), datagram...)
		b[0] = 4<<4 | test.words
		packet, peer, ok := s.payload(b, &net.IPAddr{IP: net.IPv4(192, 0, 2, 9)})
		if ok != test.whole || ok && (string(packet) != "packet" || peer != from) {
			t.Errorf("header of %d words in %d bytes: %q from %v, %v", test.words, test.bytes, packet, peer, ok)
		}
	}
	if _, _, ok := s.payload(nil, &net.IPAddr{IP: net.IPv4(192, 0, 2, 9)}); ok {
		t.Error("no byte is taken as a packet")
	}
}
