//go:build linux

package interop

import (
	"debug/pe"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// powerOnARM starts a machine of 64-bit ARM, which takes half a minute to boot. It therefore runs
// only if its packages were installed explicitly:
//
//	scripts/install-peers qemu-system-arm qemu-efi-aarch64
//	go test -run TestBootARM64 ./interop
func (b *bootNet) powerOnARM(t *testing.T, firmware string) (m *machine) {
	t.Helper()
	b.machine.do(t, func() {
		m = emulate(t, find(t, armPackage, "qemu-system-aarch64"), b.netdev, "virtio-net-pci,romfile=",
			"-machine", "virt", "-cpu", "cortex-a57", "-bios", firmware)
	})
	return m
}

const armPackage = "qemu-system-arm"

// needARM skips a test unless the machine was installed explicitly. In CI it is not.
func needARM(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(peerDir(t, armPackage)); err != nil {
		t.Skip("scripts/install-peers qemu-system-arm qemu-efi-aarch64 fetches the machine")
	}
}

// UEFI on 64-bit ARM asks port 4011 for its boot file, and runs it.
func TestBootARM64UEFI(t *testing.T) {
	needARM(t)
	t.Parallel()
	b := newBootNet(t, fill(t, t.TempDir(), map[string][]byte{"show.efi": speaker("Loaded from the network")}), "--boot-file", "arm64=show.efi")
	m := b.powerOnARM(t, needFile(t, "qemu-efi-aarch64", "/usr/share/qemu-efi-aarch64/QEMU_EFI.fd"))
	m.await(t, `Loaded from the network`)
	m.awaitOff(t)
	wantBootLogged(t, b.haul, `result=offered .*client=PXE arch="UEFI arm64" form=redirect file=show.efi`)
	wantLogged(t, logged(t, b.haul), `probe show.efi .*`, `done show.efi .*`)
}

// U-Boot as Debian builds it, without CONFIG_SERVERIP_FROM_PROXYDHCP, accepts only the DHCP
// server's answer. haul's does not disturb it.
func TestBootARM64UBoot(t *testing.T) {
	needARM(t)
	t.Parallel()
	b := newBootNet(t, fill(t, t.TempDir(), map[string][]byte{"boot.scr": content(1000)}), "--boot-file", "uboot-arm64=boot.scr")
	m := b.powerOnARM(t, needFile(t, "u-boot-qemu", "/usr/lib/u-boot/qemu_arm64/u-boot.bin"))
	m.stopAutoboot(t)
	m.uboot(t, "setenv autoload no")
	m.uboot(t, "dhcp")
	got := m.uboot(t, "printenv ipaddr serverip bootfile")
	for _, want := range []string{"ipaddr=" + guest, "serverip=" + dhcpHost, `"bootfile" not defined`} {
		if !strings.Contains(got, want) {
			t.Errorf("U-Boot has not %s:\n%s", want, got)
		}
	}
	wantBootLogged(t, b.haul, `result=offered .*client=U-Boot arch="U-Boot arm64" form=any file=boot.scr`)
}

// speaker returns a UEFI program for 64-bit ARM that writes a text to the serial line of QEMU's
// machine virt, and switches the machine off.
func speaker(text string) []byte {
	text += strings.Repeat("\n", 4-len(text)%4)
	code := []uint32{
		0x10000000,                        //       adr x0, text
		0xd2800001 | uint32(len(text))<<5, // mov x1, its length
		0xd2a12002,                        // mov x2, 0x9000000
		0x38401403,                        // ldrb w3, [x0], 1
		0x39000043,                        // strb w3, [x2]
		0xf1000421,                        // subs x1, x1, 1
		0x54ffffa1,                        // b.ne to the ldrb
		0x52b08000,                        // mov w0, 0x84000000
		0x72800100,                        // movk w0, 8      SYSTEM_OFF of PSCI
		0xd4000002,                        // hvc 0
		0x14000000,                        // b here
	}
	code[0] |= uint32(len(code)) << 5
	var b []byte
	for _, instruction := range code {
		b = binary.LittleEndian.AppendUint32(b, instruction)
	}
	return efi(pe.IMAGE_FILE_MACHINE_ARM64, append(b, text...))
}
