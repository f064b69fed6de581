package proxydhcp

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/pxe"
)

// Each rule about the settings names its flag, and settings that keep all rules break none.
func TestCheckSettings(t *testing.T) {
	host := map[pxe.MAC]pxe.Host{RandomMAC(): {Ignore: true}}
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
		"all machines":    {s: Settings{Answer: true, Address: netip.AddrFrom4(pxe.Broadcast)}, want: []string{"boot-address"}},
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
	s.Check(servesFiles, func(wrong bool, setting, format string, args ...any) {
		if wrong && fmt.Errorf(format, args...) != nil {
			flags = append(flags, setting)
		}
	})
	return flags
}
