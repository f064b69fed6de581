package trace

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/golden"
)

func TestDescribe(t *testing.T) {
	long := strings.Repeat("a", maxName+1)
	tests := []struct{ name, in, want string }{
		{"empty", "", `not TFTP: too short`},
		{"one byte", "\x00", `not TFTP: too short`},
		{"opcode 0", "\x00\x00", `not TFTP: opcode 0`},
		{"opcode 7", "\x00\x07rest", `not TFTP: opcode 7`},
		{"opcode 65535", "\xff\xff", `not TFTP: opcode 65535`},

		{"read", "\x00\x01f\x00octet\x00", `RRQ "f" octet`},
		{"write", "\x00\x02f\x00netascii\x00", `WRQ "f" netascii`},
		{"mode as it came", "\x00\x01f\x00OcTeT\x00", `RRQ "f" OcTeT`},
		{"mail", "\x00\x02f\x00mail\x00", `WRQ "f" mail`},
		{"other mode", "\x00\x01f\x00image\x00", `RRQ "f" "image"`},
		{"mode in letters that fold to its own", "\x00\x01f\x00o\u017ftet\x00", `RRQ "f" "o\u017ftet"`},
		{"no name", "\x00\x01", `RRQ "" (cut off)`},
		{"empty name", "\x00\x01\x00octet\x00", `RRQ "" octet`},
		{"name without end", "\x00\x01file", `RRQ "file" (cut off)`},
		{"no mode", "\x00\x01file\x00", `RRQ "file" "" (cut off)`},
		{"mode without end", "\x00\x01file\x00octet", `RRQ "file" octet (cut off)`},
		{"long name", "\x00\x01" + long + "\x00octet\x00", `RRQ "` + long[1:] + `"... octet`},
		{"escape sequence", "\x00\x01\x1b]0;x\x07\x00octet\x00", `RRQ "\x1b]0;x\a" octet`},
		{"line end", "\x00\x01a\r\nb\x00octet\x00", `RRQ "a\r\nb" octet`},
		{"quote and backslash", "\x00\x01a\"\\b\x00octet\x00", `RRQ "a\"\\b" octet`},
		{"C1 control", "\x00\x01a\xc2\x9bb\x9b\x00octet\x00", `RRQ "a\u009bb\x9b" octet`},
		{"letters beyond ASCII", "\x00\x01gr\u00fcn\x00octet\x00", `RRQ "gr\u00fcn" octet`},
		{"text from right to left", "\x00\x01a\u202eb\x00octet\x00", `RRQ "a\u202eb" octet`},

		{"options in their order", "\x00\x01f\x00octet\x00tsize\x000\x00blksize\x001468\x00windowsize\x0016\x00", `RRQ "f" octet tsize=0 blksize=1468 windowsize=16`},
		{"haul's other options", "\x00\x01f\x00octet\x00timeout\x003\x00utimeout\x00500000\x00rollover\x000\x00", `RRQ "f" octet timeout=3 utimeout=500000 rollover=0`},
		{"option as it came", "\x00\x01f\x00octet\x00BLKSIZE\x00512\x00", `RRQ "f" octet BLKSIZE=512`},
		{"unknown option", "\x00\x01f\x00octet\x00multicast\x00\x00", `RRQ "f" octet "multicast"=""`},
		{"unknown, decimal", "\x00\x01f\x00octet\x00blksize2\x00512\x00", `RRQ "f" octet "blksize2"="512"`},
		{"malformed value", "\x00\x01f\x00octet\x00tsize\x00enable\x00", `RRQ "f" octet tsize="enable"`},
		{"negative value", "\x00\x01f\x00octet\x00blksize\x00-1\x00", `RRQ "f" octet blksize="-1"`},
		{"empty value", "\x00\x01f\x00octet\x00blksize\x00\x00", `RRQ "f" octet blksize=""`},
		{"value of 20 digits", "\x00\x01f\x00octet\x00tsize\x0012345678901234567890\x00", `RRQ "f" octet tsize="12345678901234567890"`},
		{"repeated option", "\x00\x01f\x00octet\x00blksize\x00512\x00Blksize\x0099\x00", `RRQ "f" octet blksize=512 "Blksize"="99" (repeated)`},
		{"empty option", "\x00\x01f\x00octet\x00\x001\x00", `RRQ "f" octet ""="1"`},
		{"option without end", "\x00\x01f\x00octet\x00blksi", `RRQ "f" octet "blksi" (cut off)`},
		{"option without value", "\x00\x01f\x00octet\x00blksize\x00", `RRQ "f" octet blksize="" (cut off)`},
		{"value without end", "\x00\x01f\x00octet\x00blksize\x0051", `RRQ "f" octet blksize=51 (cut off)`},
		{"padding", "\x00\x01f\x00octet\x00\x00\x00\x00", `RRQ "f" octet (3 bytes too many)`},
		{"long option", "\x00\x01f\x00octet\x00" + long + "\x00" + long + "\x00", `RRQ "f" octet "` + long[:maxField] + `"...="` + long[:maxField] + `"...`},
		{"many options", "\x00\x01f\x00octet\x00" + strings.Repeat("a\x001\x00", maxOptions+2), `RRQ "f" octet "a"="1"` + strings.Repeat(` "a"="1" (repeated)`, maxOptions-1) + ` and more options in 8 bytes`},

		{"data", "\x00\x03\x00\x1112345678", `DATA 17, 8 bytes`},
		{"last block in any case", "\x00\x03\xff\xff1234567", `DATA 65535, 7 bytes, the last`},
		{"one byte of data", "\x00\x03\x00\x001", `DATA 0, 1 byte, the last`},
		{"empty data", "\x00\x03\x00\x02", `DATA 2, 0 bytes, the last`},
		{"data without number", "\x00\x03\x00", `DATA (cut off)`},

		{"ack", "\x00\x04\x01\x00", `ACK 256`},
		{"ack without number", "\x00\x04", `ACK (cut off)`},
		{"long ack", "\x00\x04\x00\x01\x00", `ACK 1 (1 byte too many)`},

		{"error", "\x00\x05\x00\x01gone\x00", `ERROR 1 file not found: "gone"`},
		{"error 0", "\x00\x05\x00\x00User aborted\x00", `ERROR 0 not defined: "User aborted"`},
		{"error 8", "\x00\x05\x00\x08\x00", `ERROR 8 options refused: ""`},
		{"unknown error", "\x00\x05\x00\x09x\x00", `ERROR 9 unknown code: "x"`},
		{"error without NUL", "\x00\x05\x00\x02no", `ERROR 2 access violation: "no" (no closing NUL)`},
		{"error without code", "\x00\x05\x00", `ERROR (cut off)`},
		{"error with more", "\x00\x05\x00\x03full\x00xyz", `ERROR 3 disk full or allocation exceeded: "full" (3 bytes too many)`},
		{"error with controls", "\x00\x05\x00\x04\x1b[2J\x00", `ERROR 4 illegal TFTP operation: "\x1b[2J"`},
		{"long error", "\x00\x05\x00\x05" + long + "\x00", `ERROR 5 unknown transfer ID: "` + long[:maxMessage] + `"...`},

		{"option ack", "\x00\x06blksize\x001468\x00tsize\x009\x00", `OACK blksize=1468 tsize=9`},
		{"empty option ack", "\x00\x06", `OACK`},
		{"option ack, cut", "\x00\x06blksize", `OACK "blksize" (cut off)`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Describe([]byte(test.in)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// conversation returns the packets of a read request's transfer in which a packet is lost, and
// other packets that a server may receive.
func conversation() []Packet {
	at := time.Date(2026, 1, 2, 23, 59, 59, 999_000_123, time.UTC)
	client, stranger := netip.MustParseAddrPort("192.0.2.7:2070"), netip.MustParseAddrPort("[fe80::1%eth0]:69")
	port69, shard := netip.MustParseAddrPort("0.0.0.0:69"), netip.MustParseAddrPort("192.0.2.1:40000")
	block := make([]byte, 512)
	for i := range block {
		block[i] = byte(i)
	}
	data := func(n byte, b []byte) string { return "\x00\x03\x00" + string(rune(n)) + string(b) }
	var packets []Packet
	add := func(sent bool, peer, local netip.AddrPort, data string) {
		packets = append(packets, Packet{Time: at, Sent: sent, Peer: peer, Local: local, Data: []byte(data)})
		at = at.Add(250 * time.Microsecond)
	}
	add(false, client, port69, "\x00\x01boot/kernel\x00octet\x00blksize\x00512\x00windowsize\x0016\x00tsize\x000\x00")
	add(true, client, shard, "\x00\x06blksize\x00512\x00windowsize\x0016\x00tsize\x00520\x00")
	add(false, client, shard, "\x00\x04\x00\x00")
	add(true, client, shard, data(1, block))
	add(true, client, shard, data(2, block[:8]))
	add(false, client, shard, "\x00\x04\x00\x01")
	add(true, client, shard, data(2, block[:8]))
	add(false, client, shard, "\x00\x04\x00\x02")
	add(false, stranger, netip.AddrPortFrom(netip.Addr{}, 69), "\x00\x02\x1b[2J\x00octet\x00foo\x00bar\x00")
	add(true, stranger, netip.MustParseAddrPort("[fe80::2%eth0]:40001"), "\x00\x05\x00\x02no uploads\x00")
	add(false, netip.MustParseAddrPort("[::ffff:198.51.100.9]:1"), shard, "")
	add(false, netip.AddrPort{}, netip.AddrPort{}, "\x80\x81")
	return packets
}

func TestTextGolden(t *testing.T) {
	var got bytes.Buffer
	for _, c := range []struct {
		title string
		hex   int
	}{{"HexBytes 0: none", 0}, {"HexBytes 1", 1}, {"HexBytes 64", 64}, {"HexBytes MaxDatagram: all", MaxDatagram}} {
		got.WriteString("# " + c.title + "\n")
		tr := New(Config{Text: &got, HexBytes: c.hex})
		for _, p := range conversation() {
			tr.Record(p)
		}
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
	}
	checkText(t, got.String())
	golden.Compare(t, "trace.txt", got.String())
}

// A zone is the name of an interface, which may consist of nearly any bytes.
func TestZoneIsHarmless(t *testing.T) {
	peer := netip.AddrPortFrom(netip.MustParseAddr("fe80::1").WithZone("e\x1b[2J\u009b0"), 7)
	line := string(appendLine(nil, &Packet{Peer: peer, Data: []byte("\x00\x04\x00\x01")}))
	checkText(t, line)
	if want := " [fe80::1%e?[2J??0]:7 > :0  ACK 1  (4 bytes)\n"; !strings.HasSuffix(line, want) {
		t.Errorf("got %q, want it to end in %q", line, want)
	}
}

// checkText fails if s could garble a terminal, or a line exceeds the bound.
func checkText(t *testing.T, s string) {
	t.Helper()
	for line := range strings.SplitSeq(s, "\n") {
		if len(line) > maxLine {
			t.Errorf("a line has %d bytes, want at most %d", len(line), maxLine)
		}
		for i := range len(line) {
			if line[i] < ' ' || line[i] > '~' {
				t.Fatalf("byte %#02x in %q", line[i], line)
			}
		}
	}
}

// The longest lines that the bounds allow are shorter than maxLine.
func TestLongestLine(t *testing.T) {
	field := func(n int) string { return strings.Repeat("\xff", n) + "\x00" }
	request := "\x00\x01" + field(2*maxName) + field(2*maxField)
	for range 2 * maxOptions {
		request += field(2*maxField) + field(2*maxField)
	}
	for _, d := range []string{request, "\x00\x06" + request, "\x00\x05\x00\x01" + field(MaxDatagram-5)} {
		got := Describe([]byte(d))
		checkText(t, got)
		if !strings.Contains(got, `\xff"...`) {
			t.Errorf("not a long line: %q", got)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	for _, p := range conversation() {
		f.Add(p.Data)
	}
	f.Add([]byte("\x00\x01f\x00octet\x00blksize\x00512\x00blksize\x00"))
	f.Add([]byte("\x00\x05\x00\x01\x9b\xff"))
	f.Fuzz(func(t *testing.T, d []byte) {
		got := Describe(d)
		checkText(t, got)
		if got == "" || strings.Contains(got, "\n") {
			t.Errorf("%q is not one line", got)
		}
		d = d[:min(len(d), MaxDatagram)]
		dump := string(appendHex(nil, d, MaxDatagram))
		checkText(t, dump)
		if lines := strings.Count(dump, "\n"); lines != (len(d)+hexColumns-1)/hexColumns {
			t.Errorf("%d lines of dump for %d bytes", lines, len(d))
		}
	})
}
