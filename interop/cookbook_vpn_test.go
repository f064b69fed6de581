//go:build linux

package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The addresses of the two ends of the tunnel.
const (
	officeGate = "192.0.2.254"
	remoteGate = "198.51.100.1"
	remoteSite = "198.51.100.7"
	tunnelMTU  = 1280
)

// newTunnel makes two desks with a gateway between them. Its line to the second desk is slow and
// carries packets of up to tunnelMTU bytes. The gateway does not report that limit.
func newTunnel(t *testing.T) (office, remote *desk) {
	t.Helper()
	gate := newNode(t)
	office, remote = newDesk(t, newNode(t), nil), newDesk(t, newNode(t), nil)
	join(t, office.node, eth, gate, eth, 1500)
	join(t, remote.node, eth, gate, "tunnel", tunnelMTU)
	gate.sysctl(t, "ipv4/ip_forward", "1")
	gate.ip(t, address(eth, officeGate+"/24"), address("tunnel", remoteGate+"/24"),
		"rule add ipproto icmp table 100", "route add blackhole default table 100")
	office.ip(t, address(eth, cookServer+"/24"), "route add default via "+officeGate)
	remote.ip(t, address(eth, remoteSite+"/24"), "route add default via "+remoteGate)
	for n, dev := range map[*node]string{gate: "tunnel", remote.node: eth} {
		tc := find(t, "iproute2", "tc")
		if out, err := n.run(t, tc, "qdisc", "add", "dev", dev, "root", "tbf", "rate", "400mbit", "burst", "256kb", "latency", "50ms"); err != nil {
			absent(t, "the kernel cannot slow down a line (tbf): %v, %s", err, out)
		}
	}
	return office, remote
}

// A file is copied through a slow tunnel in two runs, and boot files pass once the server knows
// the tunnel's MTU.
func TestCookbookVPN(t *testing.T) {
	t.Parallel()
	const size = 40_000_000
	scripts := recipe(t, "A large file over a slow VPN", 7)
	office, remote := newTunnel(t)
	fill(t, office.dir, map[string][]byte{"boot/loader": content(200_001), "srv/images/disk.img": content(size)})
	office.begin(t, "haul serve srv --sftp :2022 --users "+usersFile(t)).await(t, "sftp://")
	get := remote.begin(t, strings.Replace(scripts[0], "1MB", "8MB", 1)) // otherwise it would take a minute
	var first []byte
	await(t, "the second mark, which says how much is on the disk", func() bool {
		marks, _ := filepath.Glob(filepath.Join(remote.dir, ".haul-*.mark"))
		if len(marks) == 0 {
			return false
		}
		mark, _ := os.ReadFile(marks[0])
		if first == nil && len(mark) > 0 {
			first = mark
		}
		return !bytes.Equal(mark, first)
	})
	_ = syscall.Kill(-get.cmd.Process.Pid, syscall.SIGKILL)
	<-get.done
	wantDialogue(t, remote.try(t), scripts[1])
	wantDialogue(t, remote.try(t), scripts[2])
	wantFile(t, filepath.Join(remote.dir, "disk.img"), content(size))

	server := office.begin(t, scripts[3])
	server.await(t, "tftp://")
	wantDialogue(t, remote.try(t), scripts[4])
	_ = syscall.Kill(-server.cmd.Process.Pid, syscall.SIGTERM)
	<-server.done
	office.begin(t, scripts[5]).await(t, "tftp://")
	wantDialogue(t, remote.try(t), scripts[6])
}
