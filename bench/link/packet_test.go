package link

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// super makes the packet of a device for a buffer that is not cut yet.
func super(version int, kind byte, payload, segment int) []byte {
	b := make([]byte, prefixLen, maxPacket)
	transport, header, proto, sumAt := ipv4Header, udpHeader, byte(protoUDP), 6
	if version == 6 {
		transport = ipv6Header
	}
	if kind != kindUDP {
		header, proto, sumAt = tcpHeader+12, protoTCP, 16
	}
	b[prefixFlags], b[prefixKind] = flagNeedsSum, kind
	binary.NativeEndian.PutUint16(b[prefixSegment:], uint16(segment))
	binary.NativeEndian.PutUint16(b[prefixSumStart:], uint16(transport))
	binary.NativeEndian.PutUint16(b[prefixSumOffset:], uint16(sumAt))
	b = append(b, make([]byte, transport+header+payload)...)
	p := b[prefixLen:]
	if version == 4 {
		p[0], p[8], p[9] = 0x45, 64, proto
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(p[4:], 0xfffe) // the number will wrap around
		copy(p[12:], []byte{10, 209, 0, 1, 10, 209, 0, 2})
		binary.BigEndian.PutUint16(p[10:], ^sum(p[:ipv4Header]))
	} else {
		p[0], p[6], p[7] = 0x60, proto, 64
		binary.BigEndian.PutUint16(p[4:], uint16(len(p)-ipv6Header))
		copy(p[8:], bytes.Repeat([]byte{0xfd, 0x42}, 16))
	}
	l4 := p[transport:]
	if kind == kindUDP {
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
	} else {
		binary.BigEndian.PutUint32(l4[4:], 0xfffffff0) // so will this
		l4[12], l4[13] = byte(header/4)<<4, 0x80|0x10|0x08|0x01
	}
	binary.BigEndian.PutUint16(l4[sumAt:], pseudo(p, transport))
	for i := range payload {
		l4[header+i] = byte(i * 7 >> 3)
	}
	return b
}

// sum returns the Internet checksum before it is complemented.
func sum(b []byte) uint16 {
	var s uint32
	for i, c := range b {
		s += uint32(c) << (8 * (1 - i%2))
	}
	return fold(s)
}

// pseudo returns the sum of the pseudo header for the content of a packet.
func pseudo(p []byte, transport int) uint16 {
	addresses, proto := p[12:20], p[9]
	if p[0]>>4 == 6 {
		addresses, proto = p[8:40], p[6]
	}
	return fold(uint32(sum(addresses)) + uint32(proto) + uint32(len(p)-transport))
}

// TestCut divides packets at every place, and checks everything that a receiver would.
func TestCut(t *testing.T) {
	kinds := []struct {
		name    string
		version int
		kind    byte
	}{{"UDP over IPv4", 4, kindUDP}, {"UDP over IPv6", 6, kindUDP}, {"TCP over IPv4", 4, kindTCP4}, {"TCP over IPv6", 6, kindTCP6}}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			b := super(k.version, k.kind, 5*100+37, 100)
			s, err := parse(b)
			if err != nil || s.count != 6 {
				t.Fatalf("parse: %d packets, %v; want 6", s.count, err)
			}
			for first := range s.count {
				for count := 1; first+count <= s.count; count++ {
					if err := checkCut(b, &s, first, count); err != nil {
						t.Errorf("packets %d to %d: %v", first, first+count-1, err)
					}
				}
			}
		})
	}
}

func checkCut(b []byte, s *shape, first, count int) error {
	head, payload := cut(b, s, first, count, make([]byte, prefixLen+maxHeaders))
	got := append(bytes.Clone(head), payload...)
	prefix, p := got[:prefixLen], got[prefixLen:]
	want := 0
	for i := range count {
		want += s.wire(first+i) - s.header
	}
	from := prefixLen + s.header + first*s.segment
	if !bytes.Equal(p[s.header:], b[from:from+want]) {
		return fmt.Errorf("other payload, %d bytes instead of %d", len(p)-s.header, want)
	}
	if p[0]>>4 == 4 {
		if sum(p[:ipv4Header]) != 0xffff {
			return fmt.Errorf("IP header's check sum is wrong")
		}
		if n := binary.BigEndian.Uint16(p[2:]); int(n) != len(p) {
			return fmt.Errorf("IP length %d of %d", n, len(p))
		}
		if id := binary.BigEndian.Uint16(p[4:]); id != uint16(0xfffe+first) {
			return fmt.Errorf("IP number %d", id)
		}
	} else if n := binary.BigEndian.Uint16(p[4:]); int(n) != len(p)-ipv6Header {
		return fmt.Errorf("IP length %d of %d", n, len(p)-ipv6Header)
	}
	l4 := p[s.transport:]
	at := int(binary.NativeEndian.Uint16(prefix[prefixSumOffset:]))
	if field := binary.BigEndian.Uint16(l4[at:]); field%0xffff != pseudo(p, s.transport)%0xffff {
		return fmt.Errorf("check sum of the pseudo header is %#x, not %#x", field, pseudo(p, s.transport))
	}
	if single := binary.NativeEndian.Uint16(prefix[prefixSegment:]) == 0; single != (count == 1) || single != (prefix[prefixKind] == kindNone) {
		return fmt.Errorf("prefix %x for %d packets", prefix, count)
	}
	if prefix[prefixFlags] != flagNeedsSum {
		return fmt.Errorf("the kernel is not asked for the check sum")
	}
	if at == 6 {
		if n := binary.BigEndian.Uint16(l4[4:]); int(n) != len(l4) {
			return fmt.Errorf("UDP length %d of %d", n, len(l4))
		}
		return nil
	}
	if seq := binary.BigEndian.Uint32(l4[4:]); seq != uint32(0xfffffff0+first*s.segment) {
		return fmt.Errorf("sequence number %d", seq)
	}
	ends, begins := l4[13]&0x09 == 0x09, l4[13]&0x80 != 0
	if ends != (first+count == s.count) || begins != (first == 0) {
		return fmt.Errorf("TCP flags %#x", l4[13])
	}
	return nil
}

func TestWireLengths(t *testing.T) {
	b := super(4, kindUDP, 2*1472+5, 1472)
	s, err := parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if s.count != 3 || s.wire(0) != 1500 || s.wire(1) != 1500 || s.wire(2) != 33 {
		t.Errorf("%d packets of %d, %d, %d bytes; want 3 of 1500, 1500, 33", s.count, s.wire(0), s.wire(1), s.wire(2))
	}
}

func FuzzParse(f *testing.F) {
	f.Add(super(4, kindUDP, 500, 100), 1, 2)
	f.Add(super(6, kindTCP6, 500, 100), 0, 1)
	f.Add([]byte{}, 0, 0)
	room := make([]byte, prefixLen+maxHeaders)
	f.Fuzz(func(t *testing.T, b []byte, first, count int) {
		s, err := parse(b)
		if err != nil {
			return
		}
		multicast(b[prefixLen:])
		total := 0
		for i := range min(s.count, 1<<16) {
			if n := s.wire(i); n < s.header || n > s.length {
				t.Fatalf("packet %d has %d of %d bytes", i, n, s.length)
			}
			total += s.wire(i) - s.header
		}
		if total != s.length-s.header {
			t.Fatalf("%d bytes of payload became %d", s.length-s.header, total)
		}
		if first >= 0 && count > 0 && count <= s.count && first <= s.count-count {
			cut(b, &s, first, count, room)
		}
	})
}
