package tcp

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/haul-project/haul/tcp/internal/proxy"
)

// These are some PROXY headers of each kind: package proxy tests the rest.
var (
	proxyFour = proxy.Header{Source: netip.MustParseAddrPort("192.0.2.1:12345"), Destination: netip.MustParseAddrPort("198.51.100.2:22")}
	proxySix  = proxy.Header{Source: netip.MustParseAddrPort("[2001:db8::1]:12345"), Destination: netip.MustParseAddrPort("[2001:db8::2]:22")}

	goodProxies = []struct {
		name, text string
		want       proxy.Header
	}{
		{"v1 IPv4", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\r\n", proxyFour},
		{"v1 IPv6", "PROXY TCP6 2001:db8::1 2001:db8::2 12345 22\r\n", proxySix},
		{"v1 unknown", "PROXY UNKNOWN\r\n", proxy.Header{}},
		{"v2 IPv4", proxyTwo(0x21, 0x11, "\xc0\x00\x02\x01\xc6\x33\x64\x02\x30\x39\x00\x16"), proxyFour},
		{"v2 local", proxyTwo(0x20, 0x00, ""), proxy.Header{Local: true}},
		{"v2 with a long field", proxyTwo(0x21, 0x11, "\xc0\x00\x02\x01\xc6\x33\x64\x02\x30\x39\x00\x16\x04\x0b\xb8"+strings.Repeat("x", 3000)), proxyFour},
	}
	hostileProxies = []struct{ name, text string }{
		{"HTTP", "GET / HTTP/1.1\r\n"},
		{"v1 too long", "PROXY UNKNOWN " + strings.Repeat("x", 200)},
		{"v1 LF", "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\n"},
		{"v1 family", "PROXY TCP5 192.0.2.1 198.51.100.2 12345 22\r\n"},
		{"v2 version", proxyTwo(0x31, 0x11, "\xc0\x00\x02\x01\xc6\x33\x64\x02\x30\x39\x00\x16")},
		{"v2 too long", proxyTwo(0x21, 0x11, strings.Repeat("x", proxy.MaxLength))},
	}
)

const proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"

// proxyTwo builds a header of version 2.
func proxyTwo(verCmd, family byte, body string) string {
	b := append([]byte(proxyV2), verCmd, family)
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return string(b) + body
}
