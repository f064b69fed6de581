//go:build unix

package interop

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each text is fetched and stored in netascii. On Unix the result is the same as the original,
// but on the wire every LF is CR LF and every bare CR is CR NUL: so the size differs, and the end
// of a block of 512 bytes may cut a pair.
var texts = map[string]string{
	"empty":          "",
	"one line":       "hello\n",
	"unended line":   "hello",
	"line feeds":     strings.Repeat("\n", 700),
	"returns":        strings.Repeat("\r", 700),
	"dos":            strings.Repeat("line\r\n", 200),
	"mixed":          strings.Repeat("a\nb\rc\r\nd\n\re\r\x00f\x00", 100),
	"cut pair":       strings.Repeat("x", 511) + "\n" + strings.Repeat("y", 1000),
	"cut return":     strings.Repeat("x", 511) + "\r" + strings.Repeat("y", 1000),
	"full block":     strings.Repeat("x", 510) + "\n",
	"ends in return": strings.Repeat("x", 511) + "\r",
	"plain blocks":   strings.Repeat("x", 1024),
}

// Tftp-hpa's client uses netascii by default.
var textClients = []client{
	{
		name: "tftp-hpa",
		find: tftpHPA.find,
		bad:  tftpHPA.bad,
		get: func(_ options, s netip.AddrPort, remote, local string) []string {
			return []string{s.Addr().String(), port(s), "-c", "get", remote, local}
		},
		put: func(_ options, s netip.AddrPort, remote, local string) []string {
			return []string{s.Addr().String(), port(s), "-c", "put", local, remote}
		},
	},
	{
		name: "haul",
		find: haul,
		get: func(o options, s netip.AddrPort, remote, local string) []string {
			return append(haulClient.get(o, s, remote, local), "--netascii")
		},
		put: func(o options, s netip.AddrPort, remote, local string) []string {
			return append(haulClient.put(o, s, remote, local), "--netascii")
		},
	},
}

func TestNetascii(t *testing.T) {
	for _, c := range textClients {
		for _, s := range []server{tftpdHPA, dnsmasq, haulServer} {
			t.Run(c.name+" and "+s.name, func(t *testing.T) {
				x := begin(t, c, s)
				for name, text := range texts {
					if s.name == "dnsmasq" && strings.Contains(text, "\r\x00") {
						continue // dnsmasq sends a CR unchanged, so a CR followed by a NUL changes
					}
					t.Run(name, func(t *testing.T) {
						file := strings.ReplaceAll(name, " ", "-")
						if err := os.WriteFile(filepath.Join(x.dir, file), []byte(text), 0o666); err != nil {
							t.Fatal(err)
						}
						local := filepath.Join(t.TempDir(), "local")
						x.do(t, c.get(options{}, x.addr, file, local))
						wantFile(t, local, []byte(text))
						if !s.readOnly {
							x.sends(t, options{}, local, []byte(text))
						}
					})
				}
			})
		}
	}
}
