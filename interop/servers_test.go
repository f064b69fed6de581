//go:build unix

package interop

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/user"
	"regexp"
	"runtime"
	"testing"
	"time"
)

// A server is a program that answers TFTP requests for the files in a directory.
type server struct {
	name     string
	start    func(t *testing.T, dir string) netip.AddrPort
	readOnly bool
	early    bool // acknowledges the last block of an upload before the file is complete
	anew     bool // treats a repeated request as a new one, which empties the file
}

var tftpdHPA = server{
	name: "tftpd-hpa",
	anew: true,
	start: func(t *testing.T, dir string) netip.AddrPort {
		p := find(t, "tftpd-hpa", "in.tftpd")
		needRoot(t, "in.tftpd changes its root directory")
		a := freePort(t)
		// It only logs to syslog, so there is no log to show.
		d := p.start(t, "--foreground", "--address", a.String(), "--secure", "--create", "--permissive", "--user", "root", dir)
		d.awaitAnswer(t, a)
		return a
	},
}

var atftpd = server{
	name:  "atftpd",
	early: true,
	anew:  true,
	start: func(t *testing.T, dir string) netip.AddrPort {
		p := find(t, "atftpd", "atftpd")
		a := freePort(t)
		// By default it becomes nobody, who owns nothing here.
		name, group := self(t)
		d := p.start(t, "--daemon", "--no-fork", "--bind-address", a.Addr().String(), "--port", port(a),
			"--user", name, "--group", group, "--logfile", "-", "--verbose=7", dir)
		d.awaitAnswer(t, a)
		return a
	},
}

// Dnsmasq only uses port 69. All of 127.0.0.0/8 is local on Linux, so it gets its own address and
// disturbs no other server.
var dnsmasq = server{
	name:     "dnsmasq",
	readOnly: true,
	start: func(t *testing.T, dir string) netip.AddrPort {
		if runtime.GOOS != "linux" {
			t.Skip("dnsmasq needs a loopback address of its own")
		}
		p := find(t, "dnsmasq-base", "dnsmasq")
		needRoot(t, "dnsmasq serves on port 69 only")
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 69, byte(rand.IntN(256)), byte(1 + rand.IntN(254))}), 69)
		d := p.start(t, "--no-daemon", "--conf-file=/dev/null", "--user=root", "--log-facility=-", "--pid-file=",
			"--port=0", "--bind-interfaces", "--listen-address="+a.Addr().String(), "--enable-tftp", "--tftp-root="+dir)
		d.awaitAnswer(t, a)
		return a
	},
}

var haulServer = server{
	name: "haul",
	start: func(t *testing.T, dir string) netip.AddrPort {
		a, d := serve(t, dir, "--upload", "create")
		t.Cleanup(func() {
			if err := d.stop(); err != nil {
				t.Errorf("haul serve, told to end: %v", err)
			}
		})
		return a
	},
}

var listening = regexp.MustCompile(`tftp://(127\.0\.0\.1:[0-9]+)`)

// serve starts haul as a server and waits until it reports its address.
func serve(t *testing.T, dir string, args ...string) (netip.AddrPort, *daemon) {
	t.Helper()
	args = append([]string{"serve", dir, "--tftp", "127.0.0.1:0"}, args...)
	d := haul(t).start(t, args...)
	return netip.MustParseAddrPort(d.ready(t, listening)[1]), d
}

// freePort returns a loopback port that was free a moment ago.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort()
}

// awaitAnswer waits until a server answers a request for a missing file with an error.
func (d *daemon) awaitAnswer(t *testing.T, a netip.AddrPort) {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 600)
	for end := time.Now().Add(startPatience); time.Now().Before(end); {
		_, _ = c.WriteToUDPAddrPort([]byte("\x00\x01is-it-up\x00octet\x00"), a)
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		if _, _, err := c.ReadFromUDPAddrPort(buf); err == nil {
			return
		}
		select {
		case <-d.done:
			t.Fatalf("the server ended at once: %v", d.err)
		default:
		}
	}
	t.Fatalf("no answer from %v within %v", a, startPatience)
}

// self returns this process's user and group.
func self(t *testing.T) (name, group string) {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return u.Username, g.Name
}

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Getuid() != 0 {
		absent(t, "root is missing: %s", why)
	}
}
