//go:build linux

package interop

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The network of the firmware tests is a cable: the host at one end, where haul serves on TFTP's
// own port, and a machine at the other.
const (
	cable   = "tap0"
	host    = "10.69.0.1"
	guest   = "10.69.0.2"
	netmask = "255.255.255.0"
)

// serveCable sets up the cable and starts haul at the host's end. It serves TFTP, with further
// args.
func serveCable(t *testing.T, dir string, args ...string) *daemon {
	t.Helper()
	p := haul(t) // built first, because nothing is reachable from the cable
	layCable(t)
	d := p.start(t, append([]string{"serve", dir, "--tftp", net.JoinHostPort(host, "69")}, args...)...)
	d.ready(t, regexp.MustCompile("tftp://"+regexp.QuoteMeta(host)))
	return d
}

// layCable makes the host's end, a TAP device, in a network namespace that only this goroutine
// and the programs it starts use. It is not visible from outside, and disappears with the last of
// them.
func layCable(t *testing.T) {
	t.Helper()
	needRoot(t, "a network namespace")
	goBack, err := lockThread()
	t.Cleanup(goBack)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		absent(t, "no network namespace: %v", err)
	}
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		absent(t, "no TAP device: /dev/net/tun: %v", err)
	}
	defer unix.Close(tun)
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	err = errors.Join(
		configure(tun, unix.TUNSETIFF, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI); return nil }),
		unix.IoctlSetInt(tun, unix.TUNSETPERSIST, 1), // until the machine takes it over
		configure(s, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.ParseIP(host).To4()) }),
		configure(s, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.ParseIP(netmask).To4()) }),
		configure(s, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil }),
	)
	if err != nil {
		t.Fatalf("%s: %v", cable, err)
	}
}

// configure sets one property of the host's end.
func configure(fd int, property uint, set func(*unix.Ifreq) error) error {
	r, err := unix.NewIfreq(cable)
	if err != nil {
		return err
	}
	if err := set(r); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, property, r)
}

// offerAddress starts a DHCP server, which assigns the machine its address and makes it boot a
// file from haul. options are further options of dnsmasq.
func offerAddress(t *testing.T, file string, options ...string) {
	t.Helper()
	leaseAddress(t, append([]string{
		"--dhcp-boot=" + file + ",," + host,
		// Without this, iPXE waits 11 s for an answer from another server.
		"--dhcp-option=encap:175,176,1b",
	}, options...)...)
}

// leaseAddress starts a DHCP server, which assigns the machine its address, and returns when it
// has its port. options are further options of dnsmasq.
func leaseAddress(t *testing.T, options ...string) {
	t.Helper()
	// Without an IPv6 router, iPXE waits 16 s for one.
	for _, a := range []string{"fe80::3/64", "fd69::3/64"} {
		if out, err := find(t, "iproute2", "ip").run(t.Context(), "addr", "add", a, "dev", cable, "nodad"); err != nil {
			absent(t, "no IPv6: ip addr add %s: %v\n%s", a, err, out)
		}
	}
	d := find(t, "dnsmasq-base", "dnsmasq").start(t, append([]string{
		"--no-daemon", "--conf-file=/dev/null", "--user=root", "--log-facility=-",
		"--pid-file=", "--port=0", "--interface=" + cable, "--bind-interfaces", "--dhcp-leasefile=" + filepath.Join(t.TempDir(), "leases"),
		"--dhcp-authoritative", "--no-ping", "--dhcp-range=" + guest + "," + guest,
		"--enable-ra", "--dhcp-range=fd69::,ra-only",
	}, options...)...)
	d.await(t, "DHCP, IP range")
}

// fill makes files in dir, and returns dir.
func fill(t *testing.T, dir string, files map[string][]byte) string {
	t.Helper()
	for name, b := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var logLine = regexp.MustCompile(`msg=tftp result=(?:"([^"]*)"|(\S*)) .* file=(\S*) .* options="?([^"]*?)"? bytes=`)

// logged stops haul and returns the line in its log for each transfer: the result, the file, and
// the agreed options.
func logged(t *testing.T, d *daemon) (transfers []string) {
	t.Helper()
	if err := d.stop(); err != nil { // now the log is complete
		t.Errorf("haul serve, told to end: %v", err)
	}
	for line := range strings.Lines(d.said(1000)) {
		m := logLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		transfer := m[1] + m[2] + " " + m[3] + " " + m[4]
		// The server remembers nothing of a refusal. A request that was repeated before the
		// answer arrived, on a busy machine, is refused again.
		if m[1]+m[2] == "refused" && len(transfers) > 0 && transfers[len(transfers)-1] == transfer {
			continue
		}
		transfers = append(transfers, transfer)
	}
	return transfers
}

// wantLogged compares transfers, in their order, with regular expressions.
func wantLogged(t *testing.T, transfers []string, want ...string) {
	t.Helper()
	for i := range max(len(transfers), len(want)) {
		switch {
		case i >= len(want):
			t.Errorf("haul's log has %q besides", transfers[i])
		case i >= len(transfers):
			t.Errorf("haul's log lacks %q", want[i])
		case !regexp.MustCompile("^(" + want[i] + ")$").MatchString(transfers[i]):
			t.Errorf("haul's log has %q, want %q", transfers[i], want[i])
		}
	}
}

// wantHTTPLogged checks for requests in haul's log, in any order.
func wantHTTPLogged(t *testing.T, d *daemon, want ...string) {
	t.Helper()
	log := d.said(1000)
	for _, w := range want {
		if !regexp.MustCompile("msg=http " + w).MatchString(log) {
			t.Errorf("haul's log lacks %s:\n%s", w, log)
		}
	}
}
