package proxydhcp

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcpadvice"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// The lines for each DHCP server contain the found files, those of the settings, and the address
// that clients reach. If there is no single such address, there are no lines.
func TestAdvise(t *testing.T) {
	files := store.Mem(0)
	storetest.Put(t, files, "undionly.kpxe", "")
	s := Settings{Answer: true, DryRun: true, Files: map[pxe.Arch]string{pxe.ARM64: "own.efi"}}
	advise := func(change func(*Service)) (string, error) {
		b, _ := newTestService(t, s)
		defer b.Close()
		change(b)
		var out bytes.Buffer
		err := b.Advise(Clients{Files: files, HTTP: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:8080")}}, &out)
		return out.String(), err
	}
	for _, server := range dhcpadvice.Servers() {
		lines, err := advise(func(b *Service) { b.settings.Advise = server })
		for _, want := range []string{"undionly.kpxe", "own.efi", "http://192.0.2.9:8080/boot.ipxe", "http://192.0.2.9:8080/own.efi"} {
			if err != nil || !strings.Contains(lines, want) {
				t.Errorf("%s: %v: the lines lack %s:\n%s", server, err, want, lines)
			}
		}
	}
	other := Interface{Name: "eth1", Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.9/24")}}
	for name, test := range map[string]struct {
		change    func(*Service)
		want, err string
	}{
		"two networks": {change: func(b *Service) { b.links = append(b.links, other) }, err: "(eth0 192.0.2.9, eth1 198.51.100.9); choose one by --interface or --boot-address"},
		"two networks, one address": {change: func(b *Service) {
			b.links, b.settings.Address = append(b.links, other), netip.MustParseAddr("203.0.113.1")
		}, want: "http://203.0.113.1:8080/boot.ipxe"},
		"unknown server": {change: func(b *Service) { b.settings.Advise = "udhcpd" }, err: `--advise: unknown DHCP server "udhcpd"`},
	} {
		lines, err := advise(func(b *Service) { b.settings.Advise = "dnsmasq"; test.change(b) })
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) || !strings.Contains(lines, test.want) {
			t.Errorf("%s: %v\n%s", name, err, lines)
		}
	}
}
