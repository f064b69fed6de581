//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

const (
	// patience is how long a machine may take for one step. Emulated on a busy host that is
	// seconds; only a failing test waits this long.
	patience = 2 * time.Minute

	// maxHeard bounds how much of a machine's output is kept, in bytes. A machine that keeps
	// restarting must not fill the memory.
	maxHeard = 1 << 20
)

// A machine is an emulated one, usually a PC, at the far end of the cable.
type machine struct {
	*daemon
	console net.Conn // its serial line
	heard   []byte   // its output
	read    int      // how much of heard await has skipped
}

// powerOn starts a machine with a network card, at the end of the cable. args select its
// firmware.
func powerOn(t *testing.T, card string, args ...string) *machine {
	t.Helper()
	return powerOnAt(t, toCable, card, args...)
}

// toCable makes QEMU connect a machine to the cable.
const toCable = "tap,script=no,downscript=no,ifname=" + cable

// powerOnAt starts a machine whose cable is described by QEMU's option netdev.
func powerOnAt(t *testing.T, netdev, card string, args ...string) *machine {
	t.Helper()
	const pkg = "qemu-system-x86"
	return emulate(t, find(t, pkg, "qemu-system-x86_64"), netdev, card, append([]string{
		"-L", peerFile(pkg, "/usr/share/qemu"), "-L", peerFile(pkg, "/usr/share/seabios"), "-L", peerFile(pkg, "/usr/lib/ipxe/qemu"),
		// Writing to this port switches the machine off: see switchOff.
		"-device", "isa-debug-exit,iobase=0x501,iosize=1",
	}, args...)...)
}

// emulate starts a machine of the kind that p, one of QEMU's programs, emulates.
func emulate(t *testing.T, p program, netdev, card string, args ...string) *machine {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "tty")
	m := &machine{daemon: p.start(t, append([]string{
		"-accel", "tcg", "-smp", "1", "-m", "256", "-nographic", "-no-reboot", "-nodefaults", "-no-user-config", "-monitor", "none",
		// The machine starts when the test listens.
		"-chardev", "socket,id=tty,server=on,wait=on,path=" + socket, "-serial", "chardev:tty",
		"-netdev", netdev + ",id=cable", "-device", card + ",netdev=cable,bootindex=0",
	}, args...)...)}
	for end := time.Now().Add(startPatience); time.Now().Before(end); {
		var err error
		if m.console, err = net.Dial("unix", socket); err == nil {
			break
		}
		select {
		case <-m.done:
			t.Fatalf("the machine ended at once: %v", m.err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if m.console == nil {
		t.Fatalf("the machine opened no serial line within %v", startPatience)
	}
	t.Cleanup(func() {
		m.console.Close()
		if t.Failed() {
			t.Logf("the machine's console:\n%s", printable(m.heard[max(0, len(m.heard)-8000):]))
		}
	})
	return m
}

// await reads the console until its output matches pattern, and returns the match and its groups.
// It skips the text before.
func (m *machine) await(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	m.console.SetReadDeadline(time.Now().Add(patience))
	for {
		if at := re.FindIndex(m.heard[m.read:]); at != nil {
			groups := re.FindStringSubmatch(string(m.heard[m.read:]))
			m.read += at[1]
			return groups
		}
		if err := m.listen(); err != nil {
			t.Fatalf("the console, awaiting %q: %v", pattern, err)
		}
	}
}

// listen reads once from the console.
func (m *machine) listen() error {
	if len(m.heard) > maxHeard {
		return fmt.Errorf("it says more than %d bytes", maxHeard)
	}
	buf := make([]byte, 4096)
	n, err := m.console.Read(buf)
	m.heard = append(m.heard, buf[:n]...)
	return err
}

// press sends one key.
func (m *machine) press(t *testing.T, key byte) {
	t.Helper()
	m.console.SetWriteDeadline(time.Now().Add(patience))
	if _, err := m.console.Write([]byte{key}); err != nil {
		t.Fatalf("the console, pressing %q: %v", key, err)
	}
}

// enter types a line. It waits for each key's echo, because a BIOS buffers 16 keys and drops
// those that are typed faster than it reads.
func (m *machine) enter(t *testing.T, line string) {
	t.Helper()
	for _, key := range []byte(line) {
		m.press(t, key)
		m.await(t, regexp.QuoteMeta(string(key)))
	}
	m.press(t, '\r')
}

// awaitOff waits until the machine has switched itself off.
func (m *machine) awaitOff(t *testing.T) {
	t.Helper()
	m.console.SetReadDeadline(time.Now().Add(patience))
	var err error
	for err == nil {
		err = m.listen() // the line ends with the machine
	}
	select {
	case <-m.done:
	case <-time.After(endPatience):
		t.Fatalf("the machine did not switch itself off; its console: %v", err)
	}
}

// switchOff is x86 machine code that switches the machine off.
var switchOff = []byte{
	0x66, 0xba, 0x01, 0x05, // mov dx, 0x501
	0xee,       //             out dx, al
	0xf4,       //             hlt
	0xeb, 0xfd, //             jmp to the hlt
}

// peerFile returns the path of a file in a peer's package: unpacked by scripts/install-peers, or
// else the machine's own.
func peerFile(pkg, path string) string {
	unpacked, err := filepath.Abs(filepath.Join("../bin/peers", pkg, path))
	if err == nil {
		if _, err = os.Stat(unpacked); err == nil {
			return unpacked
		}
	}
	return path
}

// needFile is like peerFile for a file that the test cannot do without.
func needFile(t *testing.T, pkg, path string) string {
	t.Helper()
	name := peerFile(pkg, path)
	if _, err := os.Stat(name); err != nil {
		absent(t, "%v; scripts/install-peers fetches it (package %s)", err, pkg)
	}
	return name
}

// printable drops characters that would confuse the terminal that shows a log.
func printable(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r < ' ' && r != '\n' {
			return -1
		}
		return r
	}, b)
}
