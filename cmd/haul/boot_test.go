package main

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxedoctor"
)

// A server on the network may give its file any name: the terminal receives no control characters.
func TestDiagnosisText(t *testing.T) {
	server := netip.MustParseAddr("192.0.2.9")
	for _, test := range []struct {
		d    pxedoctor.Diagnosis
		want string
	}{
		{
			pxedoctor.Diagnosis{Kind: "BIOS", Interface: "eth0", MAC: "02:00:00:00:00:01", Problems: []string{"no DHCP server gives an address"}, Next: "it does not boot"},
			"BIOS on eth0, as 02:00:00:00:00:01:\n  no answer\n  problem: no DHCP server gives an address\n  next: it does not boot\n",
		},
		{
			pxedoctor.Diagnosis{
				Kind: "UEFI x64", Interface: "eth0", MAC: "02:00:00:00:00:01",
				Offers: []pxedoctor.Offer{
					{Server: netip.MustParseAddr("192.0.2.3"), Address: "192.0.2.50", Port: dhcp.PortServer},
					{Server: server, Class: "PXEClient", Form: "redirect", Port: dhcp.PortServer},
					{Server: server, File: "a\x1b[2J", From: "192.0.2.9", Port: dhcp.PortPXE},
					{Server: server, Port: dhcp.PortServer},
				},
				File: "tftp://192.0.2.9/a\x1b[2J", Bytes: 1000, Next: "it starts a\x1b[2J",
			},
			"UEFI x64 on eth0, as 02:00:00:00:00:01:\n" +
				"  192.0.2.3 gives the address 192.0.2.50\n" +
				"  192.0.2.9 sends the machine to port 4011\n" +
				"  192.0.2.9 on port 4011 names the boot file a\\x1b[2J of 192.0.2.9\n" +
				"  192.0.2.9 says nothing about a boot file\n" +
				"  fetched tftp://192.0.2.9/a\\x1b[2J: 1.0 kB\n" +
				"  next: it starts a\\x1b[2J\n",
		},
	} {
		var out bytes.Buffer
		writeDiagnosis(&out, &test.d)
		if out.String() != test.want {
			t.Errorf("it prints\n%s\nwant\n%s", out.String(), test.want)
		}
	}
}
