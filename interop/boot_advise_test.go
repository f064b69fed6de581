//go:build linux

package interop

import (
	"os"
	"path/filepath"
	"testing"
)

// advise writes the output of "haul boot --advise" to a file, and returns its path.
func advise(t *testing.T, server string, on *node, args ...string) string {
	t.Helper()
	out, err := on.run(t, haul(t), append(bootArgs(t, t.TempDir(), "--advise", server), args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), server+".conf")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// With the lines of --advise, dnsmasq alone directs machines as haul would.
func TestBootAdvise(t *testing.T) {
	t.Parallel()
	b := &bootNet{machine: newNode(t), server: newNode(t)}
	join(t, b.machine, "br0", b.server, cable, 1500) // leaseAddress expects this name
	b.machine.ip(t, address("br0", askerHost+"/24"))
	b.server.ip(t, address(cable, host+"/24"))
	file := advise(t, "dnsmasq", b.server, "--boot-host", "52:54:00:12:34:57=own.ipxe")
	b.server.do(t, func() { leaseAddress(t, "--conf-file="+file) })
	b.doctor(t, 0, "bios,x64,http-x64,ipxe,pi --no-fetch",
		`(?s)BIOS on br0.*names the boot file undionly.kpxe of 10.69.0.1\n.*next: it fetches tftp://10.69.0.1/undionly.kpxe`,
		`(?s)UEFI x64 on br0.*next: it fetches tftp://10.69.0.1/snponly.efi`,
		`(?s)HTTP boot on br0.*next: it fetches http://10.69.0.1/snponly.efi`,
		`(?s)iPXE on UEFI x64 on br0.*next: it fetches http://10.69.0.1/boot.ipxe`,
		`(?s)Raspberry Pi on br0.*next: it asks 10.69.0.1 by TFTP for names of its own`)
	b.doctor(t, 0, "ipxe --mac 52:54:00:12:34:57 --no-fetch", `next: it fetches http://10.69.0.1/own.ipxe`)

	// dnsmasq accepts the lines for all kinds of rules.
	for _, args := range [][]string{
		{"--boot-host", `52:54:00:12:34:56=ignore,52:54:00:12:34:57=own.ipxe,"52:54:00:12:34:58=grub ""new"" #1 \x.efi"`, "--boot-file", "x64=a b.efi,uboot-arm64=boot.scr", "--http", ":8080"},
		{"--boot-known", "--boot-host", "52:54:00:12:34:58=grubx64.efi", "--http", "", "--tftp", ":69"},
	} {
		file := advise(t, "dnsmasq", b.server, args...)
		if out, err := b.server.run(t, find(t, "dnsmasq-base", "dnsmasq"), "--test", "--conf-file="+file); err != nil {
			lines, _ := os.ReadFile(file)
			t.Errorf("%v\n%s\n%s", err, out, lines)
		}
	}
}
