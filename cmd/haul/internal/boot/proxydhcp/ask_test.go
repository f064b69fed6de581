package proxydhcp

import (
	"net/netip"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// Package pxe recognizes each kind of machine, and [readOffer] reads its answer correctly.
func TestKinds(t *testing.T) {
	files := map[pxe.Arch]string{pxe.BIOS: "undionly.kpxe", pxe.X64: "ipxe.efi", pxe.ARM64: "arm.efi"}
	for _, k := range Kinds {
		want := map[string]Offer{
			"bios":       {File: "undionly.kpxe", Class: "PXEClient", Direct: true},
			"x64":        {File: "ipxe.efi", Class: "PXEClient"},
			"http-x64":   {File: "http://192.0.2.9/ipxe.efi", Class: "HTTPClient"},
			"arm64":      {File: "arm.efi", Class: "PXEClient"},
			"http-arm64": {File: "http://192.0.2.9/arm.efi", Class: "HTTPClient"},
			"ipxe":       {File: "http://192.0.2.9/boot.ipxe", Class: "PXEClient", Direct: true},
			"pi":         {Class: "PXEClient", Direct: true, Menu: true},
		}[k.Name]
		t.Run(k.Name, func(t *testing.T) {
			s, err := pxe.NewServer(pxe.Rules{Files: files, HTTPPort: 80})
			if err != nil {
				t.Fatal(err)
			}
			mac := RandomMAC()
			packet := k.appendRequest(nil, dhcp.Discover, mac, 7, dhcp.Addr{})
			server := netip.MustParseAddrPort("192.0.2.9:67")
			a := s.Handle(time.Now(), packet, pxe.Arrival{Port: dhcp.PortServer, FromPort: clientPort, Server: server.Addr().As4()}, nil)
			if a.Reason != pxe.Answered {
				t.Fatal(a.Why())
			}
			p, err := dhcp.Parse(a.Packet)
			if err != nil || p.XID != 7 || p.MAC() != mac {
				t.Fatalf("%v %d %v", err, p.XID, p.MAC())
			}
			want.Server, want.Next, want.From = server.Addr(), server.Addr(), server
			if got := readOffer(&p, server); got != want {
				t.Errorf("the offer is %+v, want %+v", got, want)
			}
		})
	}
	if _, err := ParseKind("vax"); err == nil {
		t.Error("an unknown kind is taken")
	}
}

// The name of a TFTP server is not an address, nor is an address with a zone, which may contain any
// bytes.
func TestOfferOfTFTPServer(t *testing.T) {
	from := netip.MustParseAddrPort("192.0.2.9:67")
	for name, want := range map[string]string{"192.0.2.7": "192.0.2.7", "fe80::1%\x1b]0;": "192.0.2.9", "boot": "192.0.2.9"} {
		b := dhcp.AppendHeader(nil, &dhcp.Header{Op: dhcp.BootReply, HType: 1, HLen: 6})
		b = append(append(b, byte(dhcp.OptionTFTPServer), byte(len(name))), name...)
		p, err := dhcp.Parse(dhcp.AppendEnd(b, 0))
		if err != nil {
			t.Fatal(err)
		}
		if got := readOffer(&p, from).Next; got.String() != want {
			t.Errorf("of %q: %v, want %s", name, got, want)
		}
	}
}

// Option 43 of a server may contain anything.
func FuzzVendorOption(f *testing.F) {
	for _, seed := range []string{"", "\x06\x01\x08\xff", "\x00\x06\x01\x07", "\x06\xff", "\x09\x00", "\x06\x01"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if direct, _ := readVendor(b); direct && len(b) < 3 {
			t.Errorf("% x has no room for what was read", b)
		}
	})
}
