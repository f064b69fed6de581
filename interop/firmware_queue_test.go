//go:build linux

package interop

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The cable holds fewer packets for U-Boot than a window has, as a small network card does. So
// the end of each window is lost, and no packet after it shows that to U-Boot.
func TestFirmwareUBootShortQueue(t *testing.T) {
	for _, test := range []struct{ queue, window int }{{15, 16}, {40, 64}} {
		t.Run(fmt.Sprintf("%d of %d", test.queue, test.window), func(t *testing.T) {
			t.Parallel()
			const size = 1<<20 + 1
			d := serveCable(t, fill(t, t.TempDir(), map[string][]byte{"image": content(size)}))
			shorten(t, uint32(test.queue))
			m := powerOn(t, "e1000", "-bios", needFile(t, "u-boot-qemu", "/usr/lib/u-boot/qemu-x86/u-boot.rom"))
			m.stopAutoboot(t)
			for name, value := range map[string]string{
				"ipaddr": guest, "serverip": host, "netmask": netmask,
				"tftpblocksize": "1468", "tftpwindowsize": fmt.Sprint(test.window),
			} {
				m.uboot(t, "setenv "+name+" "+value)
			}
			m.uboot(t, "tftpboot 0x4000000 image")
			got := m.uboot(t, "crc32 0x4000000 ${filesize}")
			if sum := fmt.Sprintf("==> %08x\r", crc32.ChecksumIEEE(content(size))); !strings.Contains(got, sum) {
				t.Errorf("U-Boot says %q, want %q", got, sum)
			}
			if log := logged(t, d); len(log) == 0 {
				t.Error("nothing logged")
			}
		})
	}
}

// shorten limits the number of packets that the cable holds.
func shorten(t *testing.T, packets uint32) {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	err = configure(s, unix.SIOCSIFTXQLEN, func(r *unix.Ifreq) error { r.SetUint32(packets); return nil })
	if err != nil {
		t.Fatalf("%s: %v", cable, err)
	}
}
