//go:build linux

package interop

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Installing the Debian package starts nothing. An upgrade gives running services the new
// program, and interrupts no transfer. Removal keeps the settings; purging removes them, but no
// file of the users.
func TestPackageInstall(t *testing.T) {
	t.Parallel()
	first, second := debOf(t, packages(t, firstPackages)), debOf(t, packages(t, secondPackages))
	m := newcomer(t)
	m.run(t, "rm -f /usr/sbin/policy-rc.d") // with it, container images prevent services from starting
	for name, deb := range map[string]string{"first.deb": first, "second.deb": second} {
		b, err := os.ReadFile(deb)
		if err == nil {
			err = os.WriteFile(m.path(source+"/"+name), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := m.ours(t)

	m.run(t, "dpkg --install first.deb")
	if out := m.run(t, "haul --version"); !strings.Contains(out, "v1.0.0") {
		t.Errorf("haul --version: %s", out)
	}
	for _, unit := range []string{"haul.service", "haul.socket", "haul-sftp.service"} {
		if out := m.run(t, "systemctl show --value --property ActiveState --property UnitFileState "+unit); out != "inactive\ndisabled\n" {
			t.Errorf("%s was installed, and is %q", unit, out)
		}
	}

	large, small := content(32<<20), content(fileSize)
	m.run(t, `printf '[http]\nlisten = [":80"]\n' >>/etc/haul/haul.toml
haul user add alice --key ~/.ssh/id_ed25519.pub
systemctl enable --now haul.service haul-sftp.service
haul ls sftp://alice@127.0.0.1:2022/ # and remember its key`)
	fill(t, m.path("/srv/tftp"), map[string][]byte{"large": large, "small": small, "hello.txt": []byte("Hello\n")})
	fill(t, m.path("/srv/sftp"), map[string][]byte{"hello.txt": []byte("Hello\n")})
	m.run(t, "chmod 644 /srv/sftp/hello.txt")
	m.serves(t)

	old, oldSFTP := m.main(t), m.mainOf(t, "haul-sftp")
	a := m.ask(t, "127.0.0.1", "127.0.0.1:69")
	block, err := a.begin(readOp, "small", "timeout", "255") // dpkg may be slow
	if err != nil || block.op != optionsOp {
		t.Fatalf("answer to a request: %v, opcode %d", err, block.op)
	}
	answer, session := m.beginHTTP(t, "large"), m.beginSFTP(t)
	m.run(t, "dpkg --install second.deb")
	m.replaced(t, old)
	m.await(t, "another main process of haul-sftp", func() bool { return !slices.Contains([]string{"0", oldSFTP}, m.mainOf(t, "haul-sftp")) })
	for _, unit := range []string{"haul", "haul-sftp"} {
		if out := m.run(t, `"/proc/`+m.mainOf(t, unit)+`/exe" --version`); !strings.Contains(out, "v1.1.0-rc.1") {
			t.Errorf("after the upgrade, %s runs %s", unit, out)
		}
	}
	m.run(t, "kill -0 "+old+" "+oldSFTP)
	if got, err := a.readOn(block); err != nil || !bytes.Equal(got, small) {
		t.Errorf("TFTP, begun before the upgrade: %v, %d bytes", err, len(got))
	}
	if got, err := io.ReadAll(answer.Body); err != nil || !bytes.Equal(got, large) {
		t.Errorf("HTTP, begun before the upgrade: %v, %d bytes", err, len(got))
	}
	session(t)
	m.serves(t)
	if out := m.run(t, "cat /etc/haul/haul.toml"); !strings.HasSuffix(out, "listen = [\":80\"]\n") {
		t.Errorf("the upgrade has changed the settings:\n%s", out)
	}

	m.run(t, "dpkg --remove haul")
	if out, err := m.try("haul get tftp://127.0.0.1/hello.txt -"); err == nil {
		t.Errorf("it was removed, and serves %s", out)
	}
	m.run(t, "test -s /etc/haul/haul.toml; test -s /etc/haul/users; test -e /var/lib/haul/ssh_host_ed25519_key; echo key >/etc/haul/own.key")
	m.run(t, "dpkg --purge haul")
	want := append(before, "/etc/haul", "/etc/haul/own.key", "/srv/sftp", "/srv/sftp/hello.txt", "/srv/tftp",
		"/srv/tftp/hello.txt", "/srv/tftp/large", "/srv/tftp/small")
	slices.Sort(want)
	if after := m.ours(t); !slices.Equal(after, want) {
		t.Errorf("purging leaves\n%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(want, "\n"))
	}
}

// Without the tools of systemd, the package makes its user and directories itself. It warns if a
// user haul already existed, because haul-sftp.service would have that user's privileges.
func TestPackageInstallElsewhere(t *testing.T) {
	t.Parallel()
	m := newcomer(t)
	m.run(t, "rm -f /usr/sbin/policy-rc.d; getent passwd haul && userdel haul || true")
	b, err := os.ReadFile(debOf(t, packages(t, firstPackages)))
	if err == nil {
		err = os.WriteFile(m.path(source+"/haul.deb"), b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Triggers are of other packages: the database of manual pages takes long.
	out := m.run(t, `unshare --mount sh -euc 'mount -t tmpfs none /run
for tool in systemd-sysusers systemd-tmpfiles systemctl deb-systemd-helper deb-systemd-invoke; do
	mount --bind /dev/null "$(command -v "$tool")"
done
dpkg --no-triggers --install haul.deb 2>&1
dpkg --no-triggers --install haul.deb 2>&1
haul serve --dry-run --user haul /srv/tftp'
stat --format '%n %U:%G %a' /srv/tftp /srv/sftp /etc/haul/users`)
	if want := "/srv/tftp root:root 755\n/srv/sftp haul:haul 750\n/etc/haul/users root:haul 640\n"; !strings.HasSuffix(out, want) || strings.Contains(out, "not found") {
		t.Errorf("without systemd:\n%s\nwant at the end\n%s", out, want)
	}
	const warning = "there is a user haul already, at home in /home/haul"
	out = m.run(t, `dpkg --no-triggers --purge haul; userdel haul; useradd --home-dir /home/haul haul; dpkg --no-triggers --install haul.deb 2>&1`)
	again := m.run(t, "dpkg --no-triggers --install haul.deb 2>&1")
	if !strings.Contains(out, warning) || strings.Contains(again, warning) {
		t.Errorf("the user haul was there before:\n%s\nand then an upgrade:\n%s", out, again)
	}
}

// ours lists the files that belong to the package, or to its users.
func (m *computer) ours(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(slices.Values(strings.Fields(m.run(t, `find /srv -mindepth 1
find /etc /run /usr /var '(' -name '*haul*' -o -path '*/haul/*' ')' -not -path '/var/log/*'`))))
}

// mainOf returns the PID of a service's main process on the machine.
func (m *computer) mainOf(t *testing.T, unit string) string {
	t.Helper()
	return strings.TrimSpace(m.run(t, "systemctl show --value --property MainPID "+unit))
}

// beginSFTP logs in over SSH, and returns a function that uses the connection, which must still
// exist.
func (m *computer) beginSFTP(t *testing.T) func(t *testing.T) {
	t.Helper()
	pem, err := os.ReadFile(m.path(filepath.Join(home, ".ssh/id_ed25519")))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := m.dialer(t)(t.Context(), "tcp", "127.0.0.1:2022")
	if err != nil {
		t.Fatal(err)
	}
	c, channels, requests, err := ssh.NewClientConn(conn, "127.0.0.1", &ssh.ClientConfig{
		User: "alice", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	client := ssh.NewClient(c, channels, requests)
	t.Cleanup(func() { client.Close() })
	return func(t *testing.T) {
		t.Helper()
		session, err := client.NewSession()
		if err != nil {
			t.Fatalf("SFTP, begun before the upgrade: %v", err)
		}
		in, errIn := session.StdinPipe()
		out, errOut := session.StdoutPipe()
		if err := errors.Join(errIn, errOut, session.RequestSubsystem("sftp")); err != nil {
			t.Fatalf("SFTP, begun before the upgrade: %v", err)
		}
		_, err = in.Write([]byte("\x00\x00\x00\x05\x01\x00\x00\x00\x03")) // SSH_FXP_INIT, version 3
		version := make([]byte, 9)
		if _, errRead := io.ReadFull(out, version); errors.Join(err, errRead) != nil || version[4] != 2 || version[8] != 3 {
			t.Errorf("SFTP, begun before the upgrade: %q, %v", version, errors.Join(err, errRead))
		}
		client.Close()
	}
}
