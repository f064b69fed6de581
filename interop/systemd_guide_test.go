//go:build linux

package interop

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// newcomer makes a machine with what the guide presupposes: the source tree with the binary, and
// a key of the user.
func newcomer(t *testing.T) *computer {
	t.Helper()
	binary, err := os.ReadFile(haul(t).path)
	if err != nil {
		t.Fatal(err)
	}
	m := newComputer(t)
	m.run(t, "mkdir -p bin packaging ~/.ssh")
	if err := os.CopyFS(m.path(source+"/packaging"), os.DirFS("../packaging")); err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		source + "/bin/haul":          binary,
		home + "/.ssh/id_ed25519":     pem.EncodeToMemory(block),
		home + "/.ssh/id_ed25519.pub": ssh.MarshalAuthorizedKey(public),
		home + "/.ssh/config":         []byte("StrictHostKeyChecking accept-new\n"), // as a person would answer
	} {
		if err := os.WriteFile(m.path(name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// property returns a property of the service from systemd.
func (m *computer) property(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(m.run(t, "systemctl show --value haul --property "+name))
}

// main returns the PID of the service's main process on the machine.
func (m *computer) main(t *testing.T) string {
	t.Helper()
	return m.property(t, "MainPID")
}

// replaced waits until the service has another main process.
func (m *computer) replaced(t *testing.T, old string) {
	t.Helper()
	m.await(t, "another main process", func() bool {
		now := m.main(t)
		return now != old && now != "0" && m.property(t, "SubState") == "running"
	})
}

// serves checks that the machine answers over all three protocols.
func (m *computer) serves(t *testing.T) {
	t.Helper()
	for _, location := range []string{
		"tftp://127.0.0.1/hello.txt", "http://127.0.0.1/hello.txt", "sftp://alice@127.0.0.1:2022/hello.txt",
	} {
		if out, err := m.try("haul get " + location + " -"); err != nil || !strings.HasPrefix(out, "Hello\n") {
			t.Errorf("haul get %s: %v, %s", location, err, out)
		}
	}
}

// The commands of the guide alone make an empty machine a server that serves all protocols,
// follows changes of its file, and starts again after each kind of end.
func TestSystemdGuide(t *testing.T) {
	t.Parallel()
	m := newcomer(t)
	for _, script := range docScripts(t, "guide.md", "### From an empty machine") {
		if !strings.Contains(script, "systemctl reload haul") {
			m.run(t, script)
			continue
		}
		old := m.main(t)
		m.run(t, script)
		m.replaced(t, old)
	}
	m.serves(t)

	m.reloads(t)
	m.refusesMistakes(t)
	m.refusesWithoutFile(t)
	sum := m.makesCertificate(t)

	for _, end := range []string{"systemctl restart haul", "systemctl kill --kill-whom=main --signal=KILL haul"} {
		old := m.main(t)
		m.run(t, end)
		m.replaced(t, old)
		m.serves(t)
	}
	m.successorDies(t)
	m.reboot(t)
	m.serves(t)
	m.servesHTTPS(t, sum)
	m.reloadsHooks(t)
}

// reloadsHooks makes the machine reload a server with hooks, which other processes of its user
// cannot inspect.
func (m *computer) reloadsHooks(t *testing.T) {
	t.Helper()
	for range 2 { // the first reload adds the hook
		old := m.main(t)
		m.run(t, `grep -q "^\[\[hook" /etc/haul/haul.toml || printf '[[hook]]\non = ["login"]\nrun = ["/bin/true"]\n' >>/etc/haul/haul.toml; systemctl reload haul`)
		m.replaced(t, old)
	}
}

// makesCertificate makes the machine serve HTTPS without a certificate. The service makes one,
// and a reload keeps it.
func (m *computer) makesCertificate(t *testing.T) (fingerprint string) {
	t.Helper()
	m.run(t, `printf '[https]\nlisten = [":443"]\n' >>/etc/haul/haul.toml; systemctl restart haul`)
	said := m.run(t, "journalctl --no-pager --unit haul")
	found := regexp.MustCompile(`made the self-signed certificate /var/lib/haul-http/https.pem.* --fingerprint ([0-9a-f]{64})\b`).FindStringSubmatch(said)
	if found == nil {
		t.Fatalf("the journal has no fingerprint:\n%s", said)
	}
	m.servesHTTPS(t, found[1])
	old := m.main(t)
	m.run(t, "systemctl reload haul")
	m.replaced(t, old)
	m.servesHTTPS(t, found[1])
	return found[1]
}

// servesHTTPS checks the machine's certificate over HTTPS.
func (m *computer) servesHTTPS(t *testing.T, fingerprint string) {
	t.Helper()
	if out, err := m.try("haul get --fingerprint " + fingerprint + " https://127.0.0.1/hello.txt -"); err != nil || !strings.HasPrefix(out, "Hello\n") {
		t.Errorf("haul get https: %v, %s", err, out)
	}
}

// reloads makes the machine reload its file in the middle of transfers, which finish in the old
// process.
func (m *computer) reloads(t *testing.T) {
	t.Helper()
	large := content(32 << 20) // more than all buffers on the path
	small := content(fileSize)
	fill(t, m.path("/srv/tftp"), map[string][]byte{"large": large, "small": small})
	old := m.main(t)

	a := m.ask(t, "127.0.0.1", "127.0.0.1:69")
	first, err := a.begin(readOp, "small")
	if err != nil || first.op != dataOp {
		t.Fatalf("first block: %v, opcode %d", err, first.op)
	}
	answer := m.beginHTTP(t, "large")

	get := "haul get tftp://127.0.0.1/more.txt -"
	m.run(t, "mkdir /srv/more; echo More >/srv/more/more.txt")
	if out, err := m.try(get); err == nil {
		t.Fatalf("there is a file more.txt already: %s", out)
	}
	m.run(t, `sed -i 's,"/srv/tftp",& \, "/srv/more",' /etc/haul/haul.toml; systemctl reload haul`)
	m.replaced(t, old)
	if out := m.run(t, get); !strings.HasPrefix(out, "More\n") {
		t.Errorf("after the reload: %s", out)
	}
	m.run(t, "kill -0 "+old) // it has the transfers

	if got, err := a.readOn(first); err != nil || !bytes.Equal(got, small) {
		t.Errorf("TFTP, begun before the reload: %v, %d bytes", err, len(got))
	}
	if got, err := io.ReadAll(answer.Body); err != nil || !bytes.Equal(got, large) {
		t.Errorf("HTTP, begun before the reload: %v, %d bytes", err, len(got))
	}
	m.await(t, "the old process has ended", func() bool {
		_, err := os.Stat(m.path(filepath.Join("/proc", old)))
		return err != nil
	})
	m.serves(t)
}

// beginHTTP begins to fetch a file from the machine.
func (m *computer) beginHTTP(t *testing.T, name string) *http.Response {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: m.dialer(t)}}
	answer, err := client.Get("http://127.0.0.1/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		answer.Body.Close()
		client.CloseIdleConnections()
	})
	return answer
}

// successorDies kills the main process while its predecessor has a transfer. systemd notices that
// at once, and restarts the service.
func (m *computer) successorDies(t *testing.T) {
	t.Helper()
	answer := m.beginHTTP(t, "large")
	old := m.main(t)
	m.run(t, "systemctl reload haul")
	m.replaced(t, old)
	old = m.main(t)
	m.run(t, "kill -9 "+old)
	m.await(t, "systemd has noticed", func() bool { return m.property(t, "MainPID") != old })
	if result := m.property(t, "Result"); result != "signal" {
		t.Errorf("systemd has noticed by %s, and not by the signal", result)
	}
	answer.Body.Close() // the other process waits some seconds for it
	m.replaced(t, old)
	m.serves(t)
}

// refusesReload makes a reload fail, for a reason that appears in the journal. The server
// continues.
func (m *computer) refusesReload(t *testing.T, reason string) {
	t.Helper()
	old := m.main(t)
	if out, err := m.try("systemctl reload haul"); err == nil {
		t.Errorf("systemctl reload succeeds, despite: %s\n%s", reason, out)
	}
	if out := m.run(t, "journalctl --no-pager --unit haul --lines 20"); !strings.Contains(out, reason) {
		t.Errorf("the journal has no %q:\n%s", reason, out)
	}
	if now := m.main(t); now != old {
		t.Errorf("the main process was %s and is %s", old, now)
	}
	m.serves(t)
}

// refusesMistakes makes the machine reload a file with a mistake.
func (m *computer) refusesMistakes(t *testing.T) {
	t.Helper()
	file := m.path("/etc/haul/haul.toml")
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m.run(t, "echo 'singel_port = true' >>/etc/haul/haul.toml")
	m.refusesReload(t, fmt.Sprintf("/etc/haul/haul.toml:%d:1: [http] has no key singel_port", strings.Count(string(right), "\n")+1))
	if err := os.WriteFile(file, right, 0o644); err != nil {
		t.Fatal(err)
	}
}

// refusesWithoutFile makes the machine reload a server without a file, after a change of the
// unit.
func (m *computer) refusesWithoutFile(t *testing.T) {
	t.Helper()
	restart := func(script string) {
		t.Helper()
		old := m.main(t)
		m.run(t, script+"\nsystemctl daemon-reload\nsystemctl restart haul")
		m.replaced(t, old)
	}
	restart(`mkdir /etc/systemd/system/haul.service.d
cat >/etc/systemd/system/haul.service.d/override.conf <<END
[Service]
ExecStart=
ExecStart=/usr/bin/haul serve --tftp :69 --http :80 /srv/tftp
END`)
	m.refusesReload(t, "process "+m.main(t)+" has no configuration file to read again")
	restart("rm -r /etc/systemd/system/haul.service.d")
}
