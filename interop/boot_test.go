//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A bootNet is a network with a machine, "haul boot", and a DHCP server that assigns addresses
// and does not know haul. The three are on one bridge.
type bootNet struct {
	machine *node  // has the bridge, and the machine's end of the cable
	netdev  string // QEMU's option that connects the machine to it
	server  *node  // has the address host
	haul    *daemon
}

const dhcpHost = "10.69.0.3"

// newBootNet builds the network, and serves dir with "haul boot".
func newBootNet(t *testing.T, dir string, args ...string) *bootNet {
	t.Helper()
	b, dhcp := layBootNet(t)
	dhcp.do(t, func() { leaseAddress(t) })
	b.serve(t, dir, args...)
	return b
}

// layBootNet builds the network without programs. dhcp is the node for the DHCP server.
func layBootNet(t *testing.T) (b *bootNet, dhcp *node) {
	t.Helper()
	b, dhcp = &bootNet{machine: newNode(t), netdev: toCable, server: newNode(t)}, newNode(t)
	b.machine.ip(t, "link add br0 type bridge", "link set br0 up", "tuntap add "+cable+" mode tap", "link set "+cable+" master br0 up")
	join(t, b.machine, "to-haul", b.server, eth, 1500)
	join(t, b.machine, "to-dhcp", dhcp, cable, 1500) // leaseAddress expects this name
	b.machine.ip(t, "link set to-haul master br0", "link set to-dhcp master br0")
	b.server.ip(t, address(eth, host+"/24"))
	dhcp.ip(t, address(cable, dhcpHost+"/24"))
	return b, dhcp
}

// serve serves dir with "haul boot".
func (b *bootNet) serve(t *testing.T, dir string, args ...string) {
	t.Helper()
	b.haul = b.server.start(t, haul(t), bootArgs(t, dir, args...)...)
	b.haul.ready(t, answering)
}

var answering = regexp.MustCompile(`(answering|deciding about) boot clients on `)

func bootArgs(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	return append([]string{"boot", dir, "--boot-loaders", needFile(t, "ipxe", "/usr/lib/ipxe")}, args...)
}

// powerOn starts the machine.
func (b *bootNet) powerOn(t *testing.T, card string, args ...string) (m *machine) {
	t.Helper()
	b.machine.do(t, func() { m = powerOnAt(t, b.netdev, card, args...) })
	return m
}

// machines returns the list of machines on the status page, in its form for programs.
func (b *bootNet) machines(t *testing.T) string {
	t.Helper()
	var c net.Conn
	var err error
	b.server.do(t, func() { c, err = net.Dial("tcp", "127.0.0.1:9070") })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(startPatience))
	if _, err := io.WriteString(c, "GET /api/v1/machines HTTP/1.0\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// wantBootLogged checks for lines about boot clients in haul's log, in this order.
func wantBootLogged(t *testing.T, d *daemon, want ...string) {
	t.Helper()
	rest := d.said(1000)
	for _, w := range want {
		at := regexp.MustCompile("msg=boot " + w).FindStringIndex(rest)
		if at == nil {
			t.Errorf("haul's log lacks %s, or has it too early:\n%s", w, d.said(1000))
			return
		}
		rest = rest[at[1]:]
	}
}

// A PC whose network card has iPXE boots with a DHCP server on haul's own host, which owns port
// 67. iPXE gets the script of this machine by HTTP, which loads a kernel with its command line
// and its initrd.
func TestBootBesideDHCPServer(t *testing.T) {
	t.Parallel()
	const size = 1<<20 + 777
	dir := fill(t, t.TempDir(), map[string][]byte{
		"hosts/52-54-00-12-34-56.ipxe": []byte("#!ipxe\nkernel /show quiet 1 2\ninitrd /image\nboot\n"),
		"show":                         kernelShower(),
		"image":                        content(size),
	})
	p, args := haul(t), bootArgs(t, dir, "--interface", cable)
	layCable(t)
	leaseAddress(t)
	d := p.start(t, args...)
	d.ready(t, regexp.MustCompile(`another DHCP server of this machine has port 67`))
	memory := filepath.Join(t.TempDir(), "memory")
	m := powerOn(t, "e1000", "-debugcon", "file:"+memory)
	m.awaitOff(t)
	wantFile(t, memory, shown("quiet 1 2", content(size)))
	wantBootLogged(t, d, `result=offered mac=52:54:00:12:34:56 client=iPXE arch=BIOS form=any file=boot.ipxe`)
	wantHTTPLogged(t, d, `result=done direction=read file=/boot.ipxe .*status=200`, fmt.Sprintf(`result=done direction=read file=/image .*bytes=%d`, size))
}

// A PC with a BIOS and a card with PXE loads iPXE by TFTP. iPXE shows the menu, where an entry is
// chosen: a kernel with its command line and its initrd, which have unusual names. This card has
// iPXE too, but the cable hides that until the other iPXE was requested.
func TestBootBIOS(t *testing.T) {
	t.Parallel()
	const size = 1<<20 + 777
	b := newBootNet(t, fill(t, t.TempDir(), map[string][]byte{
		"loader/entries/show.conf": []byte("title Show what was loaded\nlinux /50% off #1/" + oddName + "\ninitrd /" + oddName + ".img\narchitecture x64\noptions quiet 1 2\n"),
		"50% off #1/" + oddName:    kernelShower(),
		oddName + ".img":           content(size),
	}), "--boot-timeout", "1h", "--status", "127.0.0.1:9070")
	loaded := false
	b.holdCable(t, func(frame []byte) bool {
		switch port, data, _ := datagram(frame); {
		case port == 67 && !loaded:
			blankOptions(frame, 77, 175) // the user class, and the features of iPXE
		case port == 69 && bytes.Contains(data, []byte("undionly.kpxe")):
			loaded = true
		}
		return true
	})
	memory := filepath.Join(t.TempDir(), "memory")
	m := b.powerOn(t, "e1000", "-debugcon", "file:"+memory)
	m.chooseSecond(t, "Show what was loaded")
	if got, want := b.machines(t), regexp.MustCompile(`"mac":"52:54:00:12:34:56","address":"10\.69\.0\.[0-9]+","client":"iPXE","arch":"BIOS","stage":"(script|kernel)"`); !want.MatchString(got) {
		t.Errorf("the status page has %s", got)
	}
	m.awaitOff(t)
	wantFile(t, memory, shown("initrd=initrd0.img quiet 1 2", content(size)))
	wantBootLogged(t, b.haul,
		`result=offered .*client=PXE arch=BIOS form=direct file=undionly.kpxe`,
		`result=offered .*client=iPXE arch=BIOS form=any file=boot.ipxe`)
}

// oddName is the name of a file that is encoded in URLs. It contains no white space, which
// separates names in an entry, and only ASCII: see [pxe.Menu.IPXEProblems].
const oddName = `a%20b?c&d+e="f'g|h`

// A PC with UEFI asks port 4011 for its boot file, loads iPXE by TFTP, and iPXE shows the menu of
// a plain directory with a kernel and an initrd, which are chosen. haul runs with the commands of
// the cookbook, whose mirror is a directory here.
func TestBootUEFI(t *testing.T) {
	t.Parallel()
	data := content(1<<20 + 777)
	scripts := recipe(t, "A PXE lab beside a home router", 3)
	b, dhcp := layBootNet(t)
	dhcp.do(t, func() { leaseAddress(t) })
	d := newDesk(t, b.server, map[string]string{"sudo": "", "apt-get": "true", "curl": `sh -c 'cp "$HOME/mirror/${2##*/}" .' curl`})
	fill(t, filepath.Join(d.dir, "mirror"), map[string][]byte{"linux": commandShower(data), "initrd.gz": content(777)})
	b.haul = d.begin(t, "export HAUL_BOOT_TIMEOUT=1h HAUL_BOOT_LOADER_DIR="+needFile(t, "ipxe", "/usr/lib/ipxe")+"\n"+scripts[0])
	b.haul.ready(t, answering)
	other := newNode(t)
	join(t, b.machine, "to-other", other, eth, 1500)
	b.machine.ip(t, "link set to-other master br0")
	other.ip(t, address(eth, "10.69.0.4/24"))
	wantDialogue(t, newDesk(t, other, nil).try(t), scripts[2])
	memory := filepath.Join(t.TempDir(), "memory")
	m := b.powerOn(t, "virtio-net-pci,romfile=", "-bios", needFile(t, "ovmf", "/usr/share/ovmf/OVMF.fd"), "-debugcon", "file:"+memory)
	m.chooseSecond(t, "debian")
	m.awaitOff(t)
	var commandLine []byte
	for _, c := range "linux initrd=initrd0.img\x00" {
		commandLine = append(commandLine, byte(c), 0)
	}
	wantFile(t, memory, append(commandLine, sumOf(data)...))
	wantBootLogged(t, b.haul,
		`result=offered .*client=PXE arch="UEFI x64" form=redirect file=snponly.efi`,
		`result=offered .*client=iPXE arch="UEFI x64" form=any file=boot.ipxe`)
	wantHTTPLogged(t, b.haul, `result=done direction=read file=/debian/initrd.gz .*bytes=777`)
	var lines []string
	for line := range strings.Lines(scripts[1]) {
		lines = append(lines, regexp.QuoteMeta(strings.TrimPrefix(strings.TrimSpace(line), "msg=boot ")))
	}
	wantBootLogged(t, b.haul, lines...)
}

// chooseSecond chooses the second line of a menu, which has the given title.
func (m *machine) chooseSecond(t *testing.T, title string) {
	t.Helper()
	m.await(t, regexp.QuoteMeta(title))
	const down = "\x1b[B"
	m.console.SetWriteDeadline(time.Now().Add(patience))
	if _, err := m.console.Write([]byte(down)); err != nil {
		t.Fatalf("the console, choosing %q: %v", title, err)
	}
	m.await(t, regexp.QuoteMeta(title)) // it is shown as selected
	m.press(t, '\r')
}

// If port 4011 is not reachable, a machine with UEFI boots from an offer that contains the boot
// file itself. It gets such an offer when it is switched on again after a failed boot.
func TestBootUEFIDirect(t *testing.T) {
	t.Parallel()
	b, asked := newNetWithout4011(t)
	m := b.powerOn(t, "virtio-net-pci,romfile=", "-bios", needFile(t, "ovmf", "/usr/share/ovmf/OVMF.fd"))
	select {
	case <-asked:
	case <-m.done:
		t.Fatalf("the machine has ended: %v", m.err)
	case <-time.After(patience):
		t.Fatalf("the machine has not asked port 4011 within %v", patience)
	}
	_ = m.stop()
	b.bootsDirect(t,
		`result=offered .*client=PXE arch="UEFI x64" form=redirect file=show.efi`,
		`result=offered .*client=PXE arch="UEFI x64" form=direct file=show.efi`)
}

// directSize is the size of the data in the program that machines load without port 4011.
const directSize = 1<<20 + 777

// newNetWithout4011 is like newBootNet, with a cable that loses all packets to port 4011. The
// channel has a value after the first one.
func newNetWithout4011(t *testing.T) (b *bootNet, asked chan struct{}) {
	t.Helper()
	dir := fill(t, t.TempDir(), map[string][]byte{"show.efi": selfShower(content(directSize))})
	b, asked = newBootNet(t, dir, "--boot-file", "x64=show.efi"), make(chan struct{}, 1)
	b.holdCable(t, func(frame []byte) bool {
		port, _, _ := datagram(frame)
		if port != 4011 {
			return true
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return false
	})
	return b, asked
}

// bootsDirect checks that a machine boots by TFTP, and that haul has logged offers, the last of
// them for this boot.
func (b *bootNet) bootsDirect(t *testing.T, offers ...string) {
	t.Helper()
	memory := filepath.Join(t.TempDir(), "memory")
	m := b.powerOn(t, "virtio-net-pci,romfile=", "-bios", needFile(t, "ovmf", "/usr/share/ovmf/OVMF.fd"), "-debugcon", "file:"+memory)
	m.awaitOff(t)
	wantFile(t, memory, sumOf(content(directSize)))
	wantBootLogged(t, b.haul, offers...)
	wantLogged(t, logged(t, b.haul), `probe show.efi .*`, `done show.efi .*`)
}

// UEFI's HTTP boot gets the URL of its boot file.
func TestBootUEFIOverHTTP(t *testing.T) {
	t.Parallel()
	data := content(1<<20 + 777)
	b := newBootNet(t, fill(t, t.TempDir(), map[string][]byte{"show.efi": selfShower(data)}), "--boot-file", "x64=show.efi")
	memory := filepath.Join(t.TempDir(), "memory")
	m := b.powerOn(t, "virtio-net-pci,romfile=", append(httpBootOnly, "-bios", needFile(t, "ovmf", "/usr/share/ovmf/OVMF.fd"), "-debugcon", "file:"+memory)...)
	m.awaitOff(t)
	wantFile(t, memory, sumOf(data))
	wantBootLogged(t, b.haul, `result=offered .*client="HTTP boot" arch="UEFI x64" form=any file=show.efi`)
}

// withoutIPv6 makes OVMF boot by PXE and HTTP over IPv4 only, which is faster; httpBootOnly makes
// it use HTTP only, so that it begins at once.
var (
	withoutIPv6  = []string{"-fw_cfg", "name=opt/org.tianocore/IPv6Support,string=no"}
	httpBootOnly = append([]string{"-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=no"}, withoutIPv6...)
)
