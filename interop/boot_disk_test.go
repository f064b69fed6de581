//go:build linux

package interop

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// A machine whose menu is not used boots its disk after the timeout of the menu: with iPXE and
// with GRUB, with a BIOS and with UEFI.
func TestBootDisk(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("what haul sends to boot clients is the same on the portable path")
	}
	args := []string{"--boot-timeout", "2s"}
	kernel := map[string][]byte{"debian/linux": content(777), "debian/initrd.gz": content(777)}

	t.Run("iPXE BIOS", func(t *testing.T) {
		t.Parallel()
		b := newBootNet(t, fill(t, t.TempDir(), kernel), args...)
		b.bootsDisk(t, "e1000", bootSector(t))
		wantBootLogged(t, b.haul, `result=script .*file=boot.ipxe`)
	})

	// iPXE ends, and the firmware continues with its next device.
	t.Run("iPXE UEFI", func(t *testing.T) {
		t.Parallel()
		b := newBootNet(t, fill(t, t.TempDir(), kernel), args...)
		b.bootsDisk(t, "virtio-net-pci,romfile=", espDisk(t), append(withoutIPv6, "-bios", needFile(t, "ovmf", "/usr/share/ovmf/OVMF.fd"))...)
		wantBootLogged(t, b.haul, `result=script .*file=boot.ipxe`)
	})

	// GRUB asks the server that the DHCP server names.
	t.Run("GRUB UEFI", func(t *testing.T) {
		t.Parallel()
		dir := fill(t, t.TempDir(), kernel)
		mustCopy(t, needFile(t, "grub-efi-amd64-signed", "/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed"), filepath.Join(dir, "grubx64.efi"))
		file := []string{"--boot-file", "x64=grubx64.efi"}
		b, dhcp := layBootNet(t)
		lines := advise(t, "dnsmasq", b.server, file...)
		dhcp.do(t, func() { leaseAddress(t, "--conf-file="+lines) })
		b.serve(t, dir, append(args, file...)...)
		b.bootsDisk(t, "virtio-net-pci,romfile=", espDisk(t), append(withoutIPv6, "-bios", needFile(t, "ovmf", "/usr/share/ovmf/OVMF.fd"))...)
		wantBootLogged(t, b.haul, `result=script .*file=grub/grub.cfg`)
	})

	t.Run("GRUB BIOS", func(t *testing.T) {
		t.Parallel()
		dir := fill(t, t.TempDir(), kernel)
		modules := needFile(t, "grub-pc-bin", "/usr/lib/grub/i386-pc")
		out, err := find(t, "grub-pc-bin", "grub-mknetdir").run(t.Context(),
			"--directory", modules, "--net-directory", dir, "--subdir", "grub", "--locales=", "--fonts=", "--themes=")
		if err != nil {
			t.Fatalf("grub-mknetdir: %v\n%s", err, out)
		}
		if err := os.Remove(filepath.Join(dir, "grub/grub.cfg")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		b, dhcp := layBootNet(t)
		dhcp.do(t, func() { offerAddress(t, "grub/i386-pc/core.0") })
		// This card has iPXE, which would otherwise get its menu.
		b.serve(t, dir, append(args, "--boot-host", "52:54:00:12:34:56=ignore")...)
		b.bootsDisk(t, "e1000", bootSector(t))
		if log := logged(t, b.haul); !slices.ContainsFunc(log, regexp.MustCompile(`^done /grub/grub.cfg `).MatchString) {
			t.Errorf("GRUB has not loaded its menu: %q", log)
		}
	})
}

// bootsDisk checks that a machine boots a disk, which is a file or a directory in QEMU's
// notation.
func (b *bootNet) bootsDisk(t *testing.T, card, disk string, args ...string) {
	t.Helper()
	memory := filepath.Join(t.TempDir(), "memory")
	m := b.powerOn(t, card, append(args, "-debugcon", "file:"+memory,
		"-drive", "if=none,id=disk,format=raw,file="+disk, "-device", "ide-hd,drive=disk,bootindex=1")...)
	m.awaitOff(t)
	wantFile(t, memory, sumOf([]byte(diskText)))
}

const diskText = "the disk"

// bootSector returns a disk whose boot sector writes the sum of diskText to the debug port, and
// switches the machine off.
func bootSector(t *testing.T) string {
	t.Helper()
	code := []byte{0xba, 0xe9, 0} //     mov dx, 0xe9; of 16 bits
	for _, c := range sumOf([]byte(diskText)) {
		code = append(code, 0xb0, c, 0xee) // mov al, c; out dx, al
	}
	code = append(code, 0xba, 0x01, 0x05, 0xee, 0xf4, 0xeb, 0xfd) // as in switchOff
	b := append(code, make([]byte, 1<<20-len(code))...)
	copy(b[510:], []byte{0x55, 0xaa})
	return filepath.Join(fill(t, t.TempDir(), map[string][]byte{"disk": b}), "disk")
}

// espDisk returns a disk with an EFI system partition whose boot loader does the same.
func espDisk(t *testing.T) string {
	t.Helper()
	return "fat:rw:" + fill(t, t.TempDir(), map[string][]byte{"EFI/BOOT/BOOTX64.EFI": selfShower([]byte(diskText))})
}
