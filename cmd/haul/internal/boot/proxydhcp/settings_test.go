package proxydhcp

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// Each broken rule names its flag, and valid settings break none.
func TestCheckSettings(t *testing.T) {
	host := map[dhcp.MAC]pxe.Host{RandomMAC(): {Ignore: true}}
	network, network6 := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}
	files := map[pxe.Arch]string{pxe.X64: "shimx64.efi"}
	addr, addr6 := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")
	for name, test := range map[string]struct {
		s    Settings
		want []string // flags
	}{
		"none":            {s: Settings{}},
		"all":             {s: Settings{Answer: true, Interfaces: []string{"eth0"}, Address: addr, Relays: network, Files: files, Hosts: host, KnownOnly: true}},
		"without answers": {s: Settings{Interfaces: []string{"eth0"}, Address: addr, Relays: network, Files: files, Hosts: host, KnownOnly: true, Default: "debian"}, want: []string{"interface", "boot-file", "boot-host", "boot-known", "boot-address", "boot-relay", "boot-default"}},
		"known, and none": {s: Settings{Answer: true, KnownOnly: true}, want: []string{"boot-known"}},
		"IPv6":            {s: Settings{Answer: true, Address: addr6, Relays: network6}, want: []string{"boot-address", "boot-relay"}},
		"all machines":    {s: Settings{Answer: true, Address: netip.AddrFrom4(dhcp.Broadcast)}, want: []string{"boot-address"}},
		"no machine":      {s: Settings{Answer: true, Address: netip.IPv4Unspecified()}, want: []string{"boot-address"}},
		"time":            {s: Settings{Answer: true, Timeout: -time.Second}, want: []string{"boot-timeout"}},
		"name":            {s: Settings{Answer: true, Files: map[pxe.Arch]string{pxe.X64: ""}}, want: []string{"boot-file"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := broken(&test.s, true); !slices.Equal(got, test.want) {
				t.Errorf("the mistakes are in %q, want %q", got, test.want)
			}
		})
	}
	if got := broken(&Settings{Answer: true}, false); !slices.Equal(got, []string{"boot"}) {
		t.Errorf("without files the mistakes are in %q", got)
	}
	if got := broken(&Settings{Answer: true, DryRun: true}, false); got != nil {
		t.Errorf("in a dry run without files the mistakes are in %q", got)
	}
}

// broken returns the flags of the rules that settings break.
func broken(s *Settings, servesFiles bool) (flags []string) {
	s.Check(servesFiles, func(wrong bool, setting failure.Flag, format string, args ...any) {
		if wrong && fmt.Errorf(format, args...) != nil {
			flags = append(flags, string(setting))
		}
	})
	return flags
}

// Clients get URLs with the first HTTP address that they can reach: never one of loopback, of
// another interface, or of IPv6.
func TestReachableHTTP(t *testing.T) {
	at := func(text string) (all []netip.AddrPort) {
		for one := range strings.FieldsSeq(text) {
			all = append(all, netip.MustParseAddrPort(one))
		}
		return all
	}
	x64, _ := ParseKind("http-x64")
	for _, test := range []struct {
		http    string
		address netip.Addr
		want    string // URL for clients whose server is 192.0.2.9
	}{
		{http: "", want: ""},
		{http: "0.0.0.0:80", want: "http://192.0.2.9/l.efi"},
		{http: "[::]:8080 0.0.0.0:80", want: "http://192.0.2.9:8080/l.efi"},
		{http: "127.0.0.1:8080", want: ""},
		{http: "[::1]:8080 [2001:db8::9]:80", want: ""},
		{http: "127.0.0.1:8080 198.51.100.9:81 [::ffff:192.0.2.9]:82 192.0.2.9:83", want: "http://192.0.2.9:82/l.efi"},
		{http: "198.51.100.9:81", want: ""},
		{http: "198.51.100.9:81 192.0.2.9:83", address: netip.MustParseAddr("192.0.2.9"), want: "http://192.0.2.9:83/l.efi"},
		{http: "198.51.100.9:81 127.0.0.1:8080", address: netip.MustParseAddr("192.0.2.9"), want: "http://192.0.2.9:81/l.efi"},
	} {
		s := Settings{Answer: true, Address: test.address, Files: map[pxe.Arch]string{pxe.X64: "l.efi"}}
		decide, err := pxe.NewServer(s.rules(nil, at(test.http)))
		if err != nil {
			t.Fatal(err)
		}
		request := x64.appendRequest(nil, dhcp.Discover, RandomMAC(), 7, dhcp.Addr{})
		a := decide.Handle(time.Now(), request, pxe.Arrival{Port: dhcp.PortServer, FromPort: clientPort, Server: dhcp.Addr{192, 0, 2, 9}}, nil)
		got := ""
		if a.Packet != nil {
			p, err := dhcp.Parse(a.Packet)
			if err != nil {
				t.Fatal(err)
			}
			o := readOffer(&p, netip.AddrPort{})
			got = o.File
		}
		if got != test.want {
			t.Errorf("HTTP on %q: the URL is %q (%v), want %q", test.http, got, a.Why(), test.want)
		}
	}
	if r := (&Settings{}).rules(nil, []netip.AddrPort{netip.AddrPortFrom(netip.Addr{}, 80)}); r.HTTPPort != 80 {
		t.Error("all addresses of this machine do not count")
	}
}
