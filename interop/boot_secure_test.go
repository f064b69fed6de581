//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// secureBoot makes OVMF start only programs that are signed by Microsoft's keys or by Debian's
// shim.
func secureBoot(t *testing.T, args ...string) []string {
	t.Helper()
	vars := filepath.Join(t.TempDir(), "vars.fd")
	mustCopy(t, needFile(t, "ovmf", "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"), vars)
	return slices.Concat(args, []string{"-machine", "q35,smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on",
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + needFile(t, "ovmf", "/usr/share/OVMF/OVMF_CODE_4M.ms.fd"),
		"-drive", "if=pflash,format=raw,unit=1,file=" + vars,
		"-m", "512"}) // for the kernel
}

// signedFiles makes a directory with Debian's signed shim, GRUB and kernel, an entry for the
// kernel, and an initrd of our own.
func signedFiles(t *testing.T) string {
	t.Helper()
	dir := fill(t, t.TempDir(), map[string][]byte{
		"loader/entries/show.conf": []byte("title It's what was loaded\nlinux /debian/" + oddKernel + "\ninitrd /debian/initrd\noptions quiet console=ttyS0 panic=-1 shown=\"a b\" 1 2\n"),
		"debian/initrd":            initrdOf(t, "./testdata/init"),
	})
	const pkg = "linux-image-cloud-amd64"
	kernels, _ := filepath.Glob(filepath.Join(peerDir(t, pkg), "boot/vmlinuz-*"))
	if len(kernels) == 0 {
		absent(t, "there is no kernel; scripts/install-peers fetches it (package %s)", pkg)
	}
	mustCopy(t, kernels[0], filepath.Join(dir, "debian", oddKernel))
	mustCopy(t, needFile(t, "shim-signed", "/usr/lib/shim/shimx64.efi.signed"), filepath.Join(dir, "shimx64.efi"))
	mustCopy(t, needFile(t, "grub-efi-amd64-signed", "/usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed"), filepath.Join(dir, "grubx64.efi"))
	return dir
}

// oddKernel is the name of a kernel, which GRUB requests unchanged by TFTP.
const oddKernel = "vmlinuz%20ü?#1"

// initrdOf returns an initrd whose only file, init, is a program.
func initrdOf(t *testing.T, source string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// This is the cpio format of kernels: headers of hexadecimal numbers, all aligned to 4 bytes.
	var b bytes.Buffer
	add := func(name string, mode int, data []byte) {
		b.WriteString("070701")
		for _, n := range []int{0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0} {
			fmt.Fprintf(&b, "%08x", n)
		}
		b.WriteString(name + "\x00")
		b.Write(make([]byte, -b.Len()&3))
		b.Write(data)
		b.Write(make([]byte, -b.Len()&3))
	}
	add("init", 0o100755, program)
	add("TRAILER!!!", 0, nil)
	return b.Bytes()
}

// awaitShown waits until the program of the initrd runs on a kernel that is locked down.
func (m *machine) awaitShown(t *testing.T) {
	t.Helper()
	m.await(t, `/proc/cmdline: BOOT_IMAGE=\S+ quiet console=ttyS0 panic=-1 "shown=a b" 1 2\r?\n`)
	m.await(t, `/security/lockdown: none \[integrity\]`)
	m.awaitOff(t)
}

// Firmware with Secure Boot loads shim, shim loads GRUB, and GRUB shows haul's menu and boots its
// default: a signed kernel with its command line and its initrd. The firmware refuses an unsigned
// program.
func TestBootSecure(t *testing.T) {
	t.Parallel()
	menu := []string{"--boot-file", "x64=shimx64.efi", "--boot-default", "show", "--boot-timeout", "1s"}

	// Debian 12's GRUB 2.06 has an address after HTTP boot, but no HTTP driver. So it shows its
	// prompt, where the test makes it load the menu by TFTP.
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		b := newBootNet(t, signedFiles(t), menu...)
		m := b.powerOn(t, "virtio-net-pci,romfile=", secureBoot(t, httpBootOnly...)...)
		m.await(t, `grub> `)
		wantHTTPLogged(t, b.haul, `result=done direction=read file=/shimx64.efi .*status=200`, `result=done direction=read file=/grubx64.efi .*status=200`)
		m.enter(t, "configfile (tftp,"+host+")/grub/grub.cfg")
		m.awaitShown(t)
	})

	// GRUB asks the server that the DHCP server names, as with the lines of --advise.
	t.Run("TFTP", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("what haul sends to boot clients is the same on the portable path")
		}
		b, dhcp := layBootNet(t)
		lines := advise(t, "dnsmasq", b.server, menu[:2]...)
		dhcp.do(t, func() { leaseAddress(t, "--conf-file="+lines) })
		b.serve(t, signedFiles(t), menu...)
		m := b.powerOn(t, "virtio-net-pci,romfile=", secureBoot(t, withoutIPv6...)...)
		m.awaitShown(t)
		wantBootLogged(t, b.haul, `result=loader .*file=shimx64.efi`, `result=script .*file=grub/grub.cfg`, `result=kernel .*file="?debian/vmlinuz%20ü`)
	})

	t.Run("unsigned", func(t *testing.T) {
		t.Parallel()
		dir := fill(t, t.TempDir(), map[string][]byte{"unsigned.efi": selfShower(content(777))})
		b := newBootNet(t, dir, "--boot-file", "x64=unsigned.efi")
		m := b.powerOn(t, "virtio-net-pci,romfile=", secureBoot(t, httpBootOnly...)...)
		m.await(t, `Access Denied|Security Violation`)
		wantHTTPLogged(t, b.haul, `result=done direction=read file=/unsigned.efi .*status=200`)
	})
}
