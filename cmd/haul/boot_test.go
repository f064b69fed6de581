package main

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/boot/proxydhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxedoctor"
	"github.com/haul-project/haul/internal/dhcp"
)

// A dry run of serve prints what boot clients would receive.
func TestServeDryRunBoot(t *testing.T) {
	if _, err := proxydhcp.Interfaces(nil); err != nil {
		t.Skip(err)
	}
	dir, loaders := t.TempDir(), t.TempDir()
	for _, name := range []string{filepath.Join(dir, "linux"), filepath.Join(dir, "initrd.gz"), filepath.Join(loaders, "undionly.kpxe")} {
		writeFile(t, name, "")
	}
	code, out, msg := haul(t, "serve", dir, "-n", "--boot", "--boot-loaders", loaders, "--tftp", "127.0.0.1:6969", "--http", "127.0.0.1:8080")
	for _, want := range []string{"would answer boot clients on ", "boot files: BIOS undionly.kpxe", "TFTP is on port 6969", "a menu of 1 entry,"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d; the output lacks %q:\n%s%s", code, want, out, msg)
		}
	}
}

func TestDoctorPXERefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"eth0"}, "eth0"},
		{[]string{"--as", "vax"}, "these are known: bios, x64"},
		{[]string{"--as", ""}, "names no kind"},
		{[]string{"--mac", "52:54"}, "--mac"},
		{[]string{"--timeout", "0s"}, "above 0"},
		{[]string{"--interface", "nosuch0"}, "nosuch0"},
	} {
		if code, msg := refuse(t, append([]string{"doctor", "pxe"}, c.args...)...); code != exitUsage || !strings.Contains(msg, c.says) {
			t.Errorf("haul doctor pxe %q: exit code %d, and a message with %q:\n%s", c.args, code, c.says, msg)
		}
	}
}

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
