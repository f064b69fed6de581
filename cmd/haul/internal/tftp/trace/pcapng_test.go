package trace

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// A pcapBlock is a parsed block of a pcapng file.
type pcapBlock struct {
	kind    uint32
	fixed   []byte
	packet  []byte // the packet in a packet block
	options map[uint16]string
}

// fixedSize is how many bytes a block has before its packet and its options.
var fixedSize = map[uint32]int{blockSection: 16, blockInterface: 8, blockPacket: 20, blockStatistics: 12}

// readPcapng reads a file according to the specification, and fails at every deviation.
func readPcapng(t *testing.T, file []byte) (blocks []pcapBlock) {
	t.Helper()
	for rest := file; len(rest) > 0; {
		if len(rest) < 12 {
			t.Fatalf("%d bytes behind the last block", len(rest))
		}
		kind, length := le.Uint32(rest), int(le.Uint32(rest[4:]))
		if length%4 != 0 || length < 12 || length > len(rest) {
			t.Fatalf("block %d of type %#x has length %d, with %d bytes left", len(blocks), kind, length, len(rest))
		}
		if again := int(le.Uint32(rest[length-4:])); again != length {
			t.Fatalf("block %d has length %d at its beginning and %d at its end", len(blocks), length, again)
		}
		body := rest[8 : length-4]
		rest = rest[length:]
		size, ok := fixedSize[kind]
		if !ok || len(body) < size {
			t.Fatalf("block %d has type %#x and %d bytes", len(blocks), kind, len(body))
		}
		b := pcapBlock{kind: kind, fixed: body[:size]}
		body = body[size:]
		if kind == blockPacket {
			captured, onWire := int(le.Uint32(b.fixed[12:])), le.Uint32(b.fixed[16:])
			if int(onWire) != captured || (captured+3)&^3 > len(body) {
				t.Fatalf("block %d: captured %d of %d, with %d bytes left", len(blocks), captured, onWire, len(body))
			}
			b.packet, body = body[:captured], cutPadding(t, body, captured)
		}
		b.options = readOptions(t, body)
		blocks = append(blocks, b)
	}
	return blocks
}

func readOptions(t *testing.T, b []byte) map[uint16]string {
	t.Helper()
	options := map[uint16]string{}
	for {
		if len(b) < 4 {
			t.Fatal("options without an end")
		}
		code, length := le.Uint16(b), int(le.Uint16(b[2:]))
		b = b[4:]
		if code == optEnd {
			if length != 0 || len(b) != 0 {
				t.Fatalf("%d bytes in, and %d behind the end of options", length, len(b))
			}
			return options
		}
		if _, twice := options[code]; twice || (length+3)&^3 > len(b) {
			t.Fatalf("option %d of %d bytes: twice %v, %d bytes left", code, length, twice, len(b))
		}
		options[code] = string(b[:length])
		b = cutPadding(t, b, length)
	}
}

// cutPadding returns the bytes that follow the first n bytes and their padding. The padding must be
// zeros.
func cutPadding(t *testing.T, b []byte, n int) []byte {
	t.Helper()
	end := (n + 3) &^ 3
	if slices.ContainsFunc(b[n:end], func(c byte) bool { return c != 0 }) {
		t.Fatalf("padding is %x", b[n:end])
	}
	return b[end:]
}

// checksum computes the checksum of RFC 1071 word by word, unlike the code under test.
func checksum(parts ...[]byte) uint16 {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	if len(all)%2 == 1 {
		all = append(all, 0)
	}
	var sum uint32
	for ; len(all) > 0; all = all[2:] {
		sum += uint32(binary.BigEndian.Uint16(all))
		sum = sum&0xffff + sum>>16
	}
	return uint16(sum)
}

// readDatagram parses an IP packet, and checks every length and checksum.
func readDatagram(t *testing.T, b []byte) (from, to netip.AddrPort, data []byte) {
	t.Helper()
	var src, dst netip.Addr
	var addrs, udp []byte
	be := binary.BigEndian
	switch b[0] >> 4 {
	case 4:
		if b[0] != 0x45 || int(be.Uint16(b[2:])) != len(b) || b[8] == 0 || b[9] != 17 || checksum(b[:20]) != 0xffff {
			t.Fatalf("IPv4 header % x of %d bytes, checksum %#x", b[:20], len(b), checksum(b[:20]))
		}
		addrs, udp = b[12:20], b[20:]
	case 6:
		if be.Uint32(b) != 6<<28 || int(be.Uint16(b[4:])) != len(b)-40 || b[6] != 17 || b[7] == 0 {
			t.Fatalf("IPv6 header % x of %d bytes", b[:40], len(b))
		}
		addrs, udp = b[8:40], b[40:]
	default:
		t.Fatalf("IP version %d", b[0]>>4)
	}
	src, _ = netip.AddrFromSlice(addrs[:len(addrs)/2])
	dst, _ = netip.AddrFromSlice(addrs[len(addrs)/2:])
	pseudo := be.AppendUint32(nil, uint32(len(udp)))
	pseudo = be.AppendUint32(pseudo, 17)
	if int(be.Uint16(udp[4:])) != len(udp) || be.Uint16(udp[6:]) == 0 || checksum(addrs, pseudo, udp) != 0xffff {
		t.Fatalf("UDP header % x of %d bytes, checksum %#x", udp[:8], len(udp), checksum(addrs, pseudo, udp))
	}
	return netip.AddrPortFrom(src, be.Uint16(udp)), netip.AddrPortFrom(dst, be.Uint16(udp[2:])), udp[8:]
}

// capture returns the blocks of a trace of the given packets.
func capture(t *testing.T, packets []Packet) []pcapBlock {
	t.Helper()
	var file bytes.Buffer
	tr := New(Config{Pcap: &file})
	for _, p := range packets {
		tr.Record(p)
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	return readPcapng(t, file.Bytes())
}

func TestPcapngHeaders(t *testing.T) {
	blocks := capture(t, nil)
	if len(blocks) != 3 || blocks[0].kind != blockSection || blocks[1].kind != blockInterface || blocks[2].kind != blockStatistics {
		t.Fatalf("blocks %+v", blocks)
	}
	section, iface, statistics := blocks[0], blocks[1], blocks[2]
	if want := "\x4d\x3c\x2b\x1a\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff"; string(section.fixed) != want {
		t.Errorf("section header % x", section.fixed)
	}
	if section.options[1] != comment || section.options[4] != "haul" {
		t.Errorf("section options %v", section.options)
	}
	if want := "\x65\x00\x00\x00\x00\x00\x00\x00"; string(iface.fixed) != want {
		t.Errorf("interface description % x", iface.fixed)
	}
	if iface.options[2] != "haul" || iface.options[9] != "\x09" {
		t.Errorf("interface options %v", iface.options)
	}
	if statistics.options[5] != "\x00\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("statistics options %v", statistics.options)
	}
}

func TestPcapngPackets(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)
	tests := []struct {
		name        string
		sent        bool
		peer, local string
		from, to    string
	}{
		{"received", false, "192.0.2.7:2070", "192.0.2.1:69", "192.0.2.7:2070", "192.0.2.1:69"},
		{"sent", true, "192.0.2.7:2070", "192.0.2.1:40000", "192.0.2.1:40000", "192.0.2.7:2070"},
		{"received, IPv6", false, "[2001:db8::7]:2070", "[2001:db8::1]:69", "[2001:db8::7]:2070", "[2001:db8::1]:69"},
		{"sent, IPv6", true, "[2001:db8::7]:2070", "[2001:db8::1]:69", "[2001:db8::1]:69", "[2001:db8::7]:2070"},
		{"zones", true, "[fe80::7%eth0]:1", "[fe80::1%eth0]:2", "[fe80::1]:2", "[fe80::7]:1"},
		{"mapped", false, "[::ffff:192.0.2.7]:1", "[::ffff:192.0.2.1]:2", "192.0.2.7:1", "192.0.2.1:2"},
		{"local unknown", false, "192.0.2.7:1", "", "192.0.2.7:1", "0.0.0.0:0"},
		{"local unknown, IPv6", true, "[2001:db8::7]:1", "", "[::]:0", "[2001:db8::7]:1"},
		{"local of another family", false, "192.0.2.7:1", "[::]:69", "192.0.2.7:1", "0.0.0.0:69"},
		{"nothing known", true, "", "", "0.0.0.0:0", "0.0.0.0:0"},
	}
	var packets []Packet
	for i, test := range tests {
		peer, _ := netip.ParseAddrPort(test.peer)
		local, _ := netip.ParseAddrPort(test.local)
		data := []byte("\x00\x04\x00\x01-------"[:4+i%7]) // lengths that need every possible padding
		packets = append(packets, Packet{Time: at.Add(time.Duration(i)), Sent: test.sent, Peer: peer, Local: local, Data: data})
	}
	blocks := capture(t, packets)
	if len(blocks) != len(tests)+3 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := blocks[i+2]
			if b.kind != blockPacket || le.Uint32(b.fixed) != 0 {
				t.Fatalf("block %+v", b)
			}
			ns := int64(le.Uint32(b.fixed[4:]))<<32 | int64(le.Uint32(b.fixed[8:]))
			if !time.Unix(0, ns).Equal(packets[i].Time) {
				t.Errorf("time %v, want %v", time.Unix(0, ns).UTC(), packets[i].Time)
			}
			flags := "\x01\x00\x00\x00"
			if test.sent {
				flags = "\x02\x00\x00\x00"
			}
			if len(b.options) != 1 || b.options[2] != flags {
				t.Errorf("options %v", b.options)
			}
			from, to, data := readDatagram(t, b.packet)
			if from.String() != test.from || to.String() != test.to || !bytes.Equal(data, packets[i].Data) {
				t.Errorf("%v > %v %q, want %s > %s %q", from, to, data, test.from, test.to, packets[i].Data)
			}
		})
	}
}

// Datagrams of any length have correct lengths and checksums, even the longest.
func TestPcapngLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	long := make([]byte, MaxDatagram+1)
	for i := range long {
		long[i] = byte(r.Uint32())
	}
	sizes := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 516, 1472, 65464 + 4, MaxDatagram, MaxDatagram + 1}
	for _, peer := range []string{"192.0.2.7:2070", "[2001:db8::7]:2070"} {
		var packets []Packet
		for _, n := range sizes {
			packets = append(packets, Packet{Peer: netip.MustParseAddrPort(peer), Data: long[:n]})
		}
		blocks := capture(t, packets)
		if len(blocks) != len(sizes)+3 {
			t.Fatalf("%d blocks", len(blocks))
		}
		for i, n := range sizes {
			_, _, data := readDatagram(t, blocks[i+2].packet)
			if !bytes.Equal(data, long[:min(n, MaxDatagram)]) {
				t.Errorf("%s, %d bytes: came back as %d", peer, n, len(data))
			}
			if fixed := blocks[i+2].fixed; le.Uint64(fixed[4:]) != 0 {
				t.Errorf("the zero time became % x", fixed[4:12])
			}
		}
	}
}

// A checksum whose value is zero is sent as all ones (RFC 768).
func TestChecksumIsNeverZero(t *testing.T) {
	peer := netip.MustParseAddrPort("192.0.2.7:2070")
	ones := 0
	for n := range 1 << 16 {
		b := appendDatagram(nil, &Packet{Peer: peer, Data: []byte{0, 3, byte(n >> 8), byte(n)}})
		if b[26] == 0xff && b[27] == 0xff {
			readDatagram(t, b)
			ones++
		}
	}
	if ones == 0 {
		t.Error("no block number gives a checksum of all ones")
	}
}
