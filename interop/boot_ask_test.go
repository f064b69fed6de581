//go:build linux

package interop

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const askerHost = "10.69.0.4"

// newAskNet is like newBootNet, with an address for the machine's node, from which "haul doctor
// pxe" asks.
func newAskNet(t *testing.T, args ...string) *bootNet {
	t.Helper()
	dir := fill(t, t.TempDir(), map[string][]byte{"show.efi": content(1000), "large": nil})
	if err := os.Truncate(filepath.Join(dir, "large"), 1<<30); err != nil { // more than sockets buffer
		t.Fatal(err)
	}
	b := newBootNet(t, dir, args...)
	b.machine.ip(t, address("br0", askerHost+"/24"))
	return b
}

// doctor runs "haul doctor pxe", and checks its exit code and lines of its output.
func (b *bootNet) doctor(t *testing.T, code int, as string, want ...string) {
	t.Helper()
	b.machine.doctorPXE(t, "br0", code, as, want...)
}

// doctorPXE asks as the given kinds of machines, which further flags may follow.
func (n *node) doctorPXE(t *testing.T, link string, code int, as string, want ...string) {
	t.Helper()
	out, err := n.run(t, haul(t), append([]string{"doctor", "pxe", "--interface", link, "--timeout", "2s", "--as"}, strings.Fields(as)...)...)
	got := 0
	if exit, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if got != code {
		t.Errorf("the exit code is %d, want %d:\n%s", got, code, out)
	}
	for _, w := range want {
		if !regexp.MustCompile(w).MatchString(out) {
			t.Errorf("the output lacks %s:\n%s", w, out)
		}
	}
}

// Machines of each kind get an address from the DHCP server and a boot file from haul, which they
// can fetch. With UEFI they ask port 4011 for it, unless a rule puts it into the offer.
func TestBootDoctor(t *testing.T) {
	t.Parallel()
	b := newAskNet(t, "--boot-host", "52:54:00:12:34:58=direct")
	b.doctor(t, 0, "bios,x64,http-x64,ipxe,pi",
		`10.69.0.3 gives the address 10.69.0.2`,
		`(?s)BIOS on br0.*10.69.0.1 names the boot file undionly.kpxe of 10.69.0.1\n.*next: it starts tftp://10.69.0.1/undionly.kpxe`,
		`(?s)UEFI x64 on br0.*10.69.0.1 on port 4011 names the boot file snponly.efi of 10.69.0.1.*fetched tftp://10.69.0.1/snponly.efi: [0-9.]+ kB`,
		`(?s)HTTP boot on br0.*next: it starts http://10.69.0.1/snponly.efi`,
		`(?s)iPXE on UEFI x64 on br0.*next: it runs the script http://10.69.0.1/boot.ipxe`,
		`(?s)Raspberry Pi on br0.*next: it asks 10.69.0.1 by TFTP for names of its own`)
	b.doctor(t, 0, "x64 --mac 52:54:00:12:34:58", `10.69.0.1 names the boot file snponly.efi of 10.69.0.1\n`)
	wantBootLogged(t, b.haul, `result=offered mac=52:54:00:12:34:58 client=PXE arch="UEFI x64" form=direct file=snponly.efi`)
	b.doctor(t, 1, "arm64", `problem: no server names a boot file for it`, `next: it does not boot from the network`)
	wantBootLogged(t, b.haul, `result=unanswered .*arch="UEFI arm64" why="no boot file for UEFI arm64"`)

	// Without haul, the DHCP server assigns addresses as before.
	_ = b.haul.cmd.Process.Signal(syscall.SIGKILL)
	<-b.haul.done
	b.doctor(t, 1, "x64", `10.69.0.3 gives the address 10.69.0.2`, `problem: no server names a boot file for it`)
}

// haul sends nothing to clients that do not boot, and nothing at all in a dry run, where it
// prints which clients it would answer.
func TestBootStrangers(t *testing.T) {
	t.Parallel()
	b := newAskNet(t)
	sent := b.capture(t)
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"$1 $ip\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out, err := b.machine.run(t, find(t, "busybox", "busybox"), "udhcpc", "-i", "br0", "-f", "-n", "-q", "-s", script)
	if err != nil || !strings.Contains(out, "bound 10.69.0.2") {
		t.Errorf("udhcpc: %v\n%s", err, out)
	}
	// This is a Windows machine that asks for its address, and is not a boot client.
	out, err = b.machine.run(t, find(t, "busybox", "busybox"), "udhcpc", "-i", "br0", "-f", "-n", "-q", "-s", script, "-V", "MSFT 5.0")
	if err != nil || !strings.Contains(out, "bound 10.69.0.2") {
		t.Errorf("udhcpc as Windows: %v\n%s", err, out)
	}
	if n := sent(); n != 0 {
		t.Errorf("haul has sent %d packets", n)
	}
	if strings.Contains(b.haul.said(1000), "msg=boot") {
		t.Errorf("strangers are logged:\n%s", b.haul.said(1000))
	}
	// The last client has the only address.
	b.doctor(t, 1, "x64", `problem: no DHCP server gives an address`, `10.69.0.1 on port 4011 names the boot file snponly.efi`)
	if sent() == 0 {
		t.Error("nothing was captured of an answer: the capture is blind")
	}
}

func TestBootDryRun(t *testing.T) {
	t.Parallel()
	b := newAskNet(t, "--dry-run")
	sent := b.capture(t)
	b.doctor(t, 1, "x64", `problem: no server names a boot file for it`)
	if n := sent(); n != 0 {
		t.Errorf("haul has sent %d packets in a dry run", n)
	}
	wantBootLogged(t, b.haul, `result="would be offered" .*arch="UEFI x64" form=redirect file=snponly.efi`)
}

// A reload hands over the sockets and the information about machines. The new process answers
// with the new settings, and in the form that a machine has understood, while the old process
// still has a client.
func TestBootReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "haul.toml")
	write := func(known string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("[boot]\nfiles = [\"x64="+known+"\"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("show.efi")
	b := newAskNet(t, "--config", file)
	// The machine ignores the offer to a BIOS, and reacts to the offer to UEFI, which sends it to
	// port 4011.
	const sendsToPXE = `10.69.0.1 .*sends the machine to port 4011`
	b.doctor(t, 0, "bios,x64 --mac 52:54:00:12:34:58", `BIOS on br0, as .*\n(  .*\n)*  10.69.0.1 names the boot file undionly.kpxe`, sendsToPXE, `names the boot file show.efi`)
	write("other.efi")
	// A client that does not read keeps the old process alive. If that ended, the new one would
	// be killed too, because they are in one process group.
	defer b.holdDownload(t).Close()
	_ = b.haul.cmd.Process.Signal(syscall.SIGHUP)
	b.haul.await(t, "a successor serves from now on")
	b.doctor(t, 1, "bios,x64 --mac 52:54:00:12:34:58", `BIOS on br0, as .*\n(  .*\n)*  `+sendsToPXE, `names the boot file other.efi`, `problem: tftp://10.69.0.1/other.efi cannot be fetched`)
}

// holdDownload begins to fetch a file from haul, and leaves the transfer unfinished.
func (b *bootNet) holdDownload(t *testing.T) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	b.machine.do(t, func() { c, err = net.Dial("tcp", net.JoinHostPort(host, "80")) })
	if err == nil {
		_, err = c.Write([]byte("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // the transfer has begun
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// capture counts the DHCP and PXE packets that haul sends from now on. The socket receives all
// protocols: otherwise the bridge would take packets from its port first.
func (b *bootNet) capture(t *testing.T) (count func() int) {
	t.Helper()
	var fd int
	var err error
	b.machine.do(t, func() {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err == nil {
			var link *net.Interface
			if link, err = net.InterfaceByName("to-haul"); err == nil {
				err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: link.Index})
			}
		}
	})
	if err != nil {
		t.Fatalf("capture packets: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	packets := 0
	return func() int {
		time.Sleep(100 * time.Millisecond) // the packet may still be on its way
		buf := make([]byte, 2048)
		for {
			n, from, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return packets
			}
			link, ok := from.(*unix.SockaddrLinklayer)
			if !ok || link.Pkttype == unix.PACKET_OUTGOING || link.Protocol != htons(unix.ETH_P_IP) || n < 28 || buf[9] != unix.IPPROTO_UDP {
				continue
			}
			if port := int(buf[20])<<8 | int(buf[21]); port == 67 || port == 4011 {
				packets++
			}
		}
	}
}

func htons(n uint16) uint16 { return n<<8 | n>>8 }
