//go:build unix

package interop

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

var (
	haulHidden = sftpServer{
		name:  "haul",
		lacks: " invalid resume ", // an upload that goes on has to be in place
		start: func(t *testing.T, dir string) login { return serveSFTP(t, dir) },
	}
	haulInPlace = sftpServer{
		name:  "haul, in place",
		lacks: " invalid ", // names are UTF-8: see TestSFTPInvalidNames
		start: func(t *testing.T, dir string) login { return serveSFTP(t, dir, "--sftp-in-place") },
	}
)

// usersFile is one of a single user, haul, who has userKey, and the lines given.
func usersFile(t *testing.T, lines ...string) string {
	t.Helper()
	text := strings.Join(append([]string{"user haul", "key " + strings.TrimSpace(must[keyPair](t)(userKey()).line())}, lines...), "\n")
	name := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// serveSFTP starts haul as a server of dir for the user haul, and ends it with
// the test, in which it must not fail.
func serveSFTP(t *testing.T, dir string, args ...string) login {
	t.Helper()
	l, d := beginSFTP(t, dir, append([]string{"--users", usersFile(t), "--sftp-exempt", "127.0.0.0/8"}, args...)...)
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("haul serve, told to end: %v", err)
		}
	})
	return l
}

var (
	servingSFTP = regexp.MustCompile(`serving \S+ on sftp://(127\.0\.0\.1:[0-9]+)`)
	hostKeyLine = regexp.MustCompile(`host key (ssh-ed25519) (SHA256:\S+)`)
)

// beginSFTP starts haul as a server, and takes the host key which it shows for
// the one that it said it has.
func beginSFTP(t *testing.T, dir string, args ...string) (login, *daemon) {
	t.Helper()
	args = append([]string{"serve", dir, "--sftp", "127.0.0.1:0", "--host-keys", t.TempDir()}, args...)
	d := haul(t).start(t, args...)
	if !d.awaitLine(t, "host key ssh-ed25519") || !servingSFTP.MatchString(d.said(50)) {
		t.Fatalf("haul serve ended, or did not say where it serves: %v", d.err)
	}
	l := login{addr: servingSFTP.FindStringSubmatch(d.said(50))[1], user: "haul", key: must[keyPair](t)(userKey()).file, dir: dir, home: "/"}
	l.host = hostKeyOf(t, l.addr)
	if got, said := ssh.FingerprintSHA256(l.host), hostKeyLine.FindStringSubmatch(d.said(50)); said == nil || got != said[2] {
		t.Fatalf("the host key is %s, and haul said %q", got, said)
	}
	return l, d
}

// hostKeyOf asks a server for its host key.
func hostKeyOf(t *testing.T, addr string) (key ssh.PublicKey) {
	t.Helper()
	_, err := ssh.Dial("tcp", addr, &ssh.ClientConfig{
		Timeout: startPatience,
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
			key = k
			return nil
		},
	})
	if key == nil {
		t.Fatalf("%s shows no host key: %v", addr, err)
	}
	return key
}
