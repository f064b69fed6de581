//go:build linux

package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two servers on one host do not disturb each other, and one of them can be restarted at once,
// while its transfers continue to their end.
func TestNetworkRestart(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	next := shelf(t, l.dir, "next", 1000) // what the new server serves as "f"
	d := l.server.serve(t, l.dir, "--tftp", ":69", "--grace", waitMost.String())
	l.server.serve(t, l.dir, "--tftp", ":6969")

	// One transfer of each server waits at its first block.
	var halfway []*asker
	var firsts []reply
	for _, server := range []string{port69(host), port69(host6), host + ":6969"} {
		a := l.client.ask(t, map[bool]string{true: guest6, false: guest}[strings.HasPrefix(server, "[")], server)
		first, err := a.begin(readOp, "f")
		if err != nil || first.op != dataOp {
			t.Fatalf("first block of %s: %v, opcode %d", server, err, first.op)
		}
		halfway, firsts = append(halfway, a), append(firsts, first)
	}

	d.end()
	l.client.awaitNobody(t, port69(host)) // the port is released before transfers end
	l.client.awaitNobody(t, port69(host6))
	l.server.serve(t, next, "--tftp", ":69")
	l.client.fetches(t, haulClient, options{}, port69(host), "f", content(1000))
	l.client.fetches(t, haulClient, options{}, port69(host6), "f", content(1000))
	for i, a := range halfway {
		got, err := a.readOn(firsts[i])
		if err != nil || !bytes.Equal(got, content(fileSize)) {
			t.Errorf("transfer %d, begun before the restart: %v, %d bytes", i, err, len(got))
		}
	}
	if err := d.stop(); err != nil {
		t.Errorf("the old server: %v", err)
	}
	l.client.fetches(t, haulClient, options{}, port69(host), "f", content(1000))
}

// With a single port, transfers hold the port as long as they run.
func TestNetworkRestartSinglePort(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	next := shelf(t, l.dir, "next", 1000)
	d := l.server.serve(t, l.dir, "--single-port", "--grace", waitMost.String())
	a := l.client.ask(t, guest, port69(host))
	first, err := a.begin(readOp, "f")
	if err != nil {
		t.Fatal(err)
	}
	d.end()
	l.server.fails(t, 1, "another server has that port", serveArgs(next, "--tftp", ":69", "--single-port")...)
	if got, err := a.readOn(first); err != nil || !bytes.Equal(got, content(fileSize)) {
		t.Errorf("the transfer under way: %v, %d bytes", err, len(got))
	}
	if err := d.stop(); err != nil {
		t.Errorf("the old server: %v", err)
	}
	l.server.serve(t, next, "--tftp", ":69", "--single-port")
	l.client.fetches(t, haulClient, options{}, port69(host), "f", content(1000))
}

// publicHaul returns a directory that everybody can read, with a file "f", and the path of a haul
// in it that everybody can run.
func publicHaul(t *testing.T) (public, copied string) {
	t.Helper()
	public = t.TempDir() // its parent directory is private
	binary, err := os.ReadFile(haul(t).path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, public, map[string][]byte{"f": content(fileSize), "haul": binary})
	copied = filepath.Join(public, "haul")
	for _, name := range []string{filepath.Dir(public), public, copied} {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(public, "f"), 0o644); err != nil {
		t.Fatal(err)
	}
	return public, copied
}

// asNobody returns the arguments of setpriv that run a program as nobody.
func asNobody(args ...string) []string {
	return append([]string{"--reuid", "65534", "--regid", "65534", "--clear-groups", "--pdeathsig", "KILL"}, args...)
}

// Port 69 needs a privilege. Without it haul uses another port and reports that, unless the
// command line names one.
func TestNetworkNoPrivilege(t *testing.T) {
	t.Parallel()
	l := newLink(t)
	setpriv := find(t, "util-linux", "setpriv")
	public, copied := publicHaul(t)
	fails := func(why string, args ...string) {
		t.Helper()
		out, err := l.server.run(t, setpriv, asNobody(append([]string{copied}, args...)...)...)
		exit, ok := err.(interface{ ExitCode() int })
		if !ok || exit.ExitCode() != 1 || !strings.Contains(out, why) {
			t.Errorf("haul %s, as nobody: %v, want exit code 1 and %q\n%s", strings.Join(args, " "), err, why, out)
		}
	}

	d := l.server.start(t, setpriv, asNobody(append([]string{copied}, serveArgs(public)...)...)...)
	d.await(t, "tftp://")
	if said := d.said(20); !strings.Contains(said, "no privilege for port 69, taking :6969 instead") || !strings.Contains(said, "tftp://*:6969") {
		t.Errorf("it said:\n%s", said)
	}
	l.client.fetches(t, haulClient, options{}, host+":6969", "f", content(fileSize))
	l.client.fetches(t, tftpHPA, options{}, host+":6969", "f", content(fileSize))

	fails("CAP_NET_BIND_SERVICE", serveArgs(public, "--tftp", ":69")...)
	fails("another server has that port", serveArgs(public)...) // the other port is in use, too

	// The one required capability is enough.
	capable := append([]string{"--inh-caps", "+net_bind_service", "--ambient-caps", "+net_bind_service", copied}, serveArgs(public)...)
	d = l.server.start(t, setpriv, asNobody(capable...)...)
	d.await(t, "tftp://*:69\n")
	l.client.fetches(t, haulClient, options{}, port69(host), "f", content(fileSize))
	if err := d.stop(); err != nil {
		t.Error(err)
	}

	// So is root, which is given up when the port is open.
	l.server.serve(t, public, "--user", "65534:65534")
	l.client.fetches(t, haulClient, options{}, port69(host), "f", content(fileSize))
}
