//go:build linux

package interop

import (
	"strings"
	"testing"
)

// A server for boot clients needs privileges only at its start: it then answers as nobody, also
// clients on its own machine, and clients on an interface that was removed and added again.
// Without the privileges, or next to another boot server, it reports what it lacks.
func TestBootRights(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	setpriv := find(t, "util-linux", "setpriv")
	public, copied := publicHaul(t)
	nobodyFails := func(code int, why string, args ...string) {
		t.Helper()
		out, err := l.server.run(t, setpriv, asNobody(args...)...)
		exit, ok := err.(interface{ ExitCode() int })
		if !ok || exit.ExitCode() != code || !strings.Contains(out, why) {
			t.Errorf("as nobody, %s: %v, want exit code %d and %q\n%s", strings.Join(args, " "), err, code, why, out)
		}
	}
	second := []string{"boot", public, "--tftp", ":0", "--http", "", "--boot-loaders", ""}
	nobodyFails(1, "permission denied: run haul as root, or give it CAP_NET_BIND_SERVICE", append([]string{copied}, second...)...)
	nobodyFails(6, "permission denied: run haul as root, or give it CAP_NET_BIND_SERVICE", copied, "doctor", "pxe")

	d := l.server.start(t, haul(t), "boot", public, "--user", "65534:65534", "--boot-file", "x64=f", "--boot-loaders", "")
	d.await(t, "answering boot clients on eth0")
	l.server.fails(t, 1, "another boot server of this machine has it", second...)
	nobodyFails(1, "operation not permitted: run haul as root, or give it CAP_NET_RAW",
		append([]string{"--inh-caps", "+net_bind_service", "--ambient-caps", "+net_bind_service", copied}, second...)...)

	const named = host + ` on port 4011 names the boot file f of ` + host
	l.client.doctorPXE(t, eth, 1, "x64", named, "fetched tftp://"+host+"/f", `problem: no DHCP server gives an address`)
	l.server.doctorPXE(t, eth, 1, "x64", named)
	l.server.ip(t, "link del "+eth)
	join(t, l.server, eth, l.client, eth, 1500)
	l.server.ip(t, address(eth, host+"/24"))
	l.client.ip(t, address(eth, guest+"/24"))
	l.client.doctorPXE(t, eth, 1, "x64", named)
}
