package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
)

// proxyTwo builds a header of version 2.
func proxyTwo(verCmd, family byte, body string) string {
	b := append([]byte(beginV2), verCmd, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return string(b) + body
}

// proxyField builds one field of such a header.
func proxyField(kind byte, value string) string {
	return string([]byte{kind, byte(len(value) >> 8), byte(len(value))}) + value
}

// proxySummed sets the checksum of a header. The last `behind` bytes follow the four bytes of the
// checksum.
func proxySummed(header string, behind int) string {
	b := []byte(header)
	at := len(b) - behind - 4
	clear(b[at : at+4])
	binary.BigEndian.PutUint32(b[at:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return string(b)
}

const (
	// proxyTCP4 is 192.0.2.1:12345 to 198.51.100.2:22.
	proxyTCP4 = "\xc0\x00\x02\x01" + "\xc6\x33\x64\x02" + "\x30\x39" + "\x00\x16"
	proxyTCP6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02" + "\x30\x39" + "\x00\x16"
	proxyMapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x01" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc6\x33\x64\x02" + "\x30\x39" + "\x00\x16"
)

func proxied(src, dst string) Header {
	return Header{Source: netip.MustParseAddrPort(src), Destination: netip.MustParseAddrPort(dst)}
}

var (
	proxyFour = proxied("192.0.2.1:12345", "198.51.100.2:22")
	proxySix  = proxied("[2001:db8::1]:12345", "[2001:db8::2]:22")
)

// goodProxies are valid headers with their meaning.
var goodProxies = []struct {
	name, text string
	want       Header
}{
	{"v1 IPv4", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\r\n", proxyFour},
	{"v1 IPv4, longest", "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", proxied("255.255.255.255:65535", "255.255.255.255:65535")},
	{"v1 zeros", "PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", proxied("0.0.0.0:0", "0.0.0.0:0")},
	{"v1 IPv6", "PROXY TCP6 2001:db8::1 2001:db8::2 12345 22\r\n", proxySix},
	{"v1 IPv6 in full", "PROXY TCP6 2001:0db8:0000:0000:0000:0000:0000:0001 2001:DB8:0:0:0:0:0:2 12345 22\r\n", proxySix},
	{"v1 IPv6, longest", "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
		proxied("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535")},
	{"v1 IPv4-mapped", "PROXY TCP6 ::ffff:192.0.2.1 ::ffff:c633:6402 12345 22\r\n", proxyFour},
	{"v1 unknown", "PROXY UNKNOWN\r\n", Header{}},
	{"v1 unknown with addresses", "PROXY UNKNOWN ffff:f...f:ffff anything 65535 65535\r\n", Header{}},
	{"v1 unknown, longest", "PROXY UNKNOWN " + strings.Repeat("x", maxLine-16) + "\r\n", Header{}},
	{"v2 IPv4", proxyTwo(0x21, 0x11, proxyTCP4), proxyFour},
	{"v2 IPv6", proxyTwo(0x21, 0x21, proxyTCP6), proxySix},
	{"v2 IPv4-mapped", proxyTwo(0x21, 0x21, proxyMapped), proxyFour},
	{"v2 local", proxyTwo(0x20, 0x00, ""), Header{Local: true}},
	{"v2 local with what is to be skipped", proxyTwo(0x20, 0xff, "\x01junk"), Header{Local: true}},
	{"v2 unspecified", proxyTwo(0x21, 0x00, "junk"), Header{}},
	{"v2 UDP", proxyTwo(0x21, 0x12, proxyTCP4), Header{}},
	{"v2 Unix", proxyTwo(0x21, 0x31, strings.Repeat("/", 216)), Header{}},
	{"v2 Unix datagrams", proxyTwo(0x21, 0x32, strings.Repeat("\x00", 216)), Header{}},
	{"v2 fields", proxyTwo(0x21, 0x11, proxyTCP4+proxyField(1, "h2")+proxyField(4, "")+proxyField(0xea, strings.Repeat("x", 300))), proxyFour},
	{"v2 checksum", proxySummed(proxyTwo(0x21, 0x21, proxyTCP6+proxyField(3, "----")), 0), proxySix},
	{"v2 checksum between others", proxySummed(proxyTwo(0x21, 0x11, proxyTCP4+proxyField(2, "example.org")+proxyField(3, "----")+proxyField(4, "\x00")), 4), proxyFour},
	{"v2, longest", proxyTwo(0x21, 0x11, proxyTCP4+proxyField(4, strings.Repeat("x", MaxLength-fixedLength-len(proxyTCP4)-3))), proxyFour},
}

func TestParse(t *testing.T) {
	for _, tt := range goodProxies {
		t.Run(tt.name, func(t *testing.T) {
			// The client's bytes after the header are not touched.
			for _, behind := range []string{"", "\r\n", "SSH-2.0-x\r\n"} {
				got, n, err := Parse([]byte(tt.text + behind))
				if got != tt.want || n != len(tt.text) || err != nil {
					t.Errorf("with %q behind it: %+v, %d bytes of %d, %v; want %+v", behind, got, n, len(tt.text), err, tt.want)
				}
			}
			// Each prefix of a header is recognized as the beginning of a header.
			for i := range len(tt.text) {
				if got, n, err := Parse([]byte(tt.text[:i])); err != ErrShort || n != 0 || got != (Header{}) {
					t.Fatalf("%q: %+v, %d, %v; want ErrShort", tt.text[:i], got, n, err)
				}
			}
		})
	}
}

// hostileProxies are headers that must be refused.
var hostileProxies = []struct {
	name, text string
	want       error
}{
	{"HTTP", "GET / HTTP/1.1\r\n", errNone},
	{"SSH", "SSH-2.0-OpenSSH_9.9\r\n", errNone},
	{"TLS", "\x16\x03\x01\x02\x00\x01", errNone},
	{"small letters", "proxy TCP4 192.0.2.1 198.51.100.2 12345 22\r\n", errNone},
	{"a tab", "PROXY\tTCP4 192.0.2.1 198.51.100.2 12345 22\r\n", errNone},
	{"almost version 2", "\r\n\r\n\x00\r\nQUIT\r", errNone},
	{"version 2 without its zero", "\r\n\r\nQUIT\n\x21\x11\x00\x0c" + proxyTCP4, errNone},

	{"v1 too long", "PROXY UNKNOWN " + strings.Repeat("x", maxLine), errLong},
	{"v1 too long by one", "PROXY UNKNOWN " + strings.Repeat("x", maxLine-15) + "\r\n", errLong},
	{"v1 LF", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\n", errEnd},
	{"v1 CR", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\rx", errEnd},
	{"v1 CR CR LF", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\r\r\n", errEnd},
	{"v1 LF in what is ignored", "PROXY UNKNOWN x\ny\r\n", errEnd},
	{"v1 no family", "PROXY \r\n", errFamily},
	{"v1 family", "PROXY TCP5 192.0.2.1 198.51.100.2 12345 22\r\n", errFamily},
	{"v1 family in small letters", "PROXY tcp4 192.0.2.1 198.51.100.2 12345 22\r\n", errFamily},
	{"v1 family with more", "PROXY UNKNOWNS\r\n", errFamily},
	{"v1 two spaces", "PROXY  TCP4 192.0.2.1 198.51.100.2 12345 22\r\n", errFamily},
	{"v1 family alone", "PROXY TCP4\r\n", errLine},
	{"v1 no ports", "PROXY TCP4 192.0.2.1 198.51.100.2\r\n", errLine},
	{"v1 one port", "PROXY TCP4 192.0.2.1 198.51.100.2 12345\r\n", errLine},
	{"v1 junk", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22 x\r\n", errLine},
	{"v1 a space at the end", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22 \r\n", errLine},
	{"v1 spaces", "PROXY TCP4 192.0.2.1  198.51.100.2 12345 22\r\n", errLine},
	{"v1 IPv6 as IPv4", "PROXY TCP4 2001:db8::1 2001:db8::2 12345 22\r\n", errAddress},
	{"v1 IPv4 as IPv6", "PROXY TCP6 192.0.2.1 198.51.100.2 12345 22\r\n", errAddress},
	{"v1 a name", "PROXY TCP4 localhost 198.51.100.2 12345 22\r\n", errAddress},
	{"v1 256", "PROXY TCP4 192.0.2.256 198.51.100.2 12345 22\r\n", errAddress},
	{"v1 octal", "PROXY TCP4 192.0.02.1 198.51.100.2 12345 22\r\n", errAddress},
	{"v1 three parts", "PROXY TCP4 192.0.1 198.51.100.2 12345 22\r\n", errAddress},
	{"v1 five parts", "PROXY TCP4 192.0.2.1.1 198.51.100.2 12345 22\r\n", errAddress},
	{"v1 hexadecimal", "PROXY TCP4 0xc0.0.2.1 198.51.100.2 12345 22\r\n", errAddress},
	{"v1 a sign", "PROXY TCP4 +192.0.2.1 198.51.100.2 12345 22\r\n", errAddress},
	{"v1 zone", "PROXY TCP6 fe80::1%eth0 2001:db8::2 12345 22\r\n", errAddress},
	{"v1 brackets", "PROXY TCP6 [2001:db8::1] 2001:db8::2 12345 22\r\n", errAddress},
	{"v1 two gaps", "PROXY TCP6 2001::db8::1 2001:db8::2 12345 22\r\n", errAddress},
	{"v1 a prefix", "PROXY TCP6 2001:db8::1/64 2001:db8::2 12345 22\r\n", errAddress},
	{"v1 the second", "PROXY TCP6 2001:db8::1 2001:db8:2 12345 22\r\n", errAddress},
	{"v1 port above", "PROXY TCP4 192.0.2.1 198.51.100.2 65536 22\r\n", errPort},
	{"v1 port far above", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 4294967318\r\n", errPort},
	{"v1 port with zero", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 022\r\n", errPort},
	{"v1 port below", "PROXY TCP4 192.0.2.1 198.51.100.2 -1 22\r\n", errPort},
	{"v1 port empty", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 \r\n", errPort},
	{"v1 port with NUL", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\x00\r\n", errPort},

	{"v2 version 1", proxyTwo(0x11, 0x11, proxyTCP4), errVersion},
	{"v2 version 3", proxyTwo(0x31, 0x11, proxyTCP4), errVersion},
	{"v2 the version alone", beginV2 + "\x31", errVersion},
	{"v2 command", proxyTwo(0x22, 0x11, proxyTCP4), errCommand},
	{"v2 family", proxyTwo(0x21, 0x41, proxyTCP4), errKind},
	{"v2 transport", proxyTwo(0x21, 0x13, proxyTCP4), errKind},
	{"v2 no transport", proxyTwo(0x21, 0x10, proxyTCP4), errKind},
	{"v2 no family", proxyTwo(0x21, 0x01, proxyTCP4), errKind},
	{"v2 too long", proxyTwo(0x21, 0x11, proxyTCP4+proxyField(4, strings.Repeat("x", MaxLength-fixedLength-len(proxyTCP4)-2))), errLong},
	{"v2 too long, by its length alone", beginV2 + "\x20\x00\xff\xff", errLong},
	{"v2 empty", proxyTwo(0x21, 0x11, ""), errFew},
	{"v2 short", proxyTwo(0x21, 0x11, proxyTCP4[1:]), errFew},
	{"v2 short IPv6", proxyTwo(0x21, 0x21, proxyTCP4), errFew},
	{"v2 short Unix", proxyTwo(0x21, 0x31, strings.Repeat("/", 215)), errFew},
	{"v2 one byte of a field", proxyTwo(0x21, 0x11, proxyTCP4+"\x04"), errTLV},
	{"v2 two bytes of a field", proxyTwo(0x21, 0x11, proxyTCP4+"\x04\x00"), errTLV},
	{"v2 a field beyond the end", proxyTwo(0x21, 0x11, proxyTCP4+"\x04\x00\x02x"), errTLV},
	{"v2 a field far beyond", proxyTwo(0x21, 0x11, proxyTCP4+proxyField(4, "")+"\x04\xff\xff"), errTLV},
	{"v2 checksum", proxyTwo(0x21, 0x11, proxyTCP4+proxyField(3, "\x00\x00\x00\x00")), errChecksum},
	{"v2 checksum of another length", proxyTwo(0x21, 0x11, proxyTCP4+proxyField(3, "\x00\x00\x00")), errChecksum},
	{"v2 two checksums", proxyTwo(0x21, 0x11, proxyTCP4+proxyField(3, "\x00\x00\x00\x00")+proxyField(3, "\x00\x00\x00\x00")), errChecksum},
}

func TestParseHostile(t *testing.T) {
	for _, tt := range hostileProxies {
		if got, n, err := Parse([]byte(tt.text)); err != tt.want || n != 0 || got != (Header{}) {
			t.Errorf("%s: %+v, %d, %v; want %v", tt.name, got, n, err, tt.want)
		}
	}
	// Any single flipped bit is detected.
	good := proxySummed(proxyTwo(0x21, 0x11, proxyTCP4+proxyField(3, "----")), 0)
	for i := fixedLength; i < len(good); i++ {
		for bit := range 8 {
			b := []byte(good)
			b[i] ^= 1 << bit
			if got, _, err := Parse(b); err == nil && i != fixedLength+len(proxyTCP4) {
				t.Errorf("bit %d of byte %d is not noticed: %+v", bit, i, got)
			}
		}
	}
}

// Parsing a header of any version does not allocate.
func TestParseAllocs(t *testing.T) {
	var texts [][]byte
	for _, tt := range goodProxies {
		texts = append(texts, []byte(tt.text))
	}
	got := testing.AllocsPerRun(10, func() {
		for _, b := range texts {
			_, _, _ = Parse(b)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// For any input, a parsed header is a prefix of it, and no shorter prefix would have been parsed.
func FuzzParse(f *testing.F) {
	for _, tt := range goodProxies {
		f.Add([]byte(tt.text))
	}
	for _, tt := range hostileProxies {
		f.Add([]byte(tt.text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := Parse(b)
		if err != nil {
			if n != 0 || h != (Header{}) {
				t.Errorf("%q: %+v and %d with %v", b, h, n, err)
			}
			if err == ErrShort && len(b) >= MaxLength {
				t.Errorf("%d bytes are not enough", len(b))
			}
			return
		}
		if n <= 0 || n > len(b) || n > MaxLength {
			t.Fatalf("%d bytes of %d", n, len(b))
		}
		for i := range n {
			if _, _, err := Parse(b[:i]); err != ErrShort {
				t.Fatalf("the first %d bytes: %v, and the first %d are a header", i, err, n)
			}
		}
		if again, m, err := Parse(b[:n]); again != h || m != n || err != nil {
			t.Errorf("without what is behind it: %+v, %d, %v; want %+v, %d", again, m, err, h, n)
		}
		if h.Source.IsValid() != h.Destination.IsValid() || h.Source.Addr().Is4In6() || h.Local && h.Source.IsValid() {
			t.Errorf("%+v", h)
		}
	})
}

// A header may arrive in any number of pieces, and the data after it is kept.
func TestRead(t *testing.T) {
	const client = "SSH-2.0-x\r\n"
	for _, tt := range goodProxies {
		for name, pieces := range map[string]func(io.Reader) io.Reader{
			"at once":               func(r io.Reader) io.Reader { return r },
			"byte by byte":          iotest.OneByteReader,
			"the end with the last": iotest.DataErrReader,
			"halves":                iotest.HalfReader,
			"now and then no byte":  func(r io.Reader) io.Reader { return &stutterer{r: r} },
		} {
			from := pieces(strings.NewReader(tt.text + client))
			h, rest, err := Read(from, make([]byte, MaxLength))
			if h != tt.want || err != nil {
				t.Errorf("%s, %s: %+v, %v; want %+v", tt.name, name, h, err, tt.want)
				continue
			}
			all, err := io.ReadAll(io.MultiReader(bytes.NewReader(rest), from))
			if string(all) != client || err != nil {
				t.Errorf("%s, %s: the client said %q, %v; want %q", tt.name, name, all, err, client)
			}
		}
	}
}

// A stutterer returns no byte every other time.
type stutterer struct {
	r     io.Reader
	reads int
}

func (s *stutterer) Read(b []byte) (int, error) {
	if s.reads++; s.reads%2 == 1 {
		return 0, nil
	}
	return s.r.Read(b[:min(len(b), 7)])
}

func TestReadErrors(t *testing.T) {
	reset := errors.New("connection reset")
	text := goodProxies[0].text
	for _, tt := range []struct {
		name string
		from io.Reader
		buf  int
		want error
	}{
		{"nothing", strings.NewReader(""), MaxLength, io.EOF},
		{"a beginning", strings.NewReader(text[:20]), MaxLength, io.ErrUnexpectedEOF},
		{"broken", io.MultiReader(strings.NewReader(text[:20]), iotest.ErrReader(reset)), MaxLength, reset},
		{"hostile", strings.NewReader("GET / HTTP/1.1\r\n"), MaxLength, errNone},
		{"nothing, and no end", mute{}, MaxLength, io.ErrNoProgress},
		{"more than there is room for", strings.NewReader(text), 20, errLong},
	} {
		if h, rest, err := Read(tt.from, make([]byte, tt.buf)); err != tt.want || rest != nil || h != (Header{}) {
			t.Errorf("%s: %+v, %q, %v; want %v", tt.name, h, rest, err, tt.want)
		}
	}
	// A wrong first byte is detected at once.
	_, _, err := Read(io.MultiReader(strings.NewReader("G"), iotest.ErrReader(reset)), make([]byte, MaxLength))
	if err != errNone {
		t.Errorf("%v, want %v", err, errNone)
	}
}

type mute struct{}

func (mute) Read([]byte) (int, error) { return 0, nil }
