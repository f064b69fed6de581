//go:build unix

package interop

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/crypto/ssh"
)

var (
	haulHidden = sftpServer{
		name:  "haul",
		lacks: " invalid resume ", // a resumed upload has to be in place
		start: func(t *testing.T, dir string) login { return serveSFTP(t, dir) },
	}
	haulInPlace = sftpServer{
		name:  "haul, in place",
		lacks: " invalid ", // names must be UTF-8: see TestSFTPInvalidNames
		start: func(t *testing.T, dir string) login { return serveSFTP(t, dir, "--sftp-in-place") },
	}
)

// usersFile writes a users file with the given lines for a single user, haul, who has userKey.
func usersFile(t *testing.T, lines ...string) string {
	t.Helper()
	text := strings.Join(append([]string{"user haul", "key " + strings.TrimSpace(must[keyPair](t)(userKey()).line())}, lines...), "\n")
	name := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// serveSFTP starts haul as a server of dir for the user haul. It is stopped with the test, and
// must not fail before.
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

// beginSFTP starts haul as a server, and checks that its host key is the one that it has
// reported.
func beginSFTP(t *testing.T, dir string, args ...string) (login, *daemon) {
	t.Helper()
	return beginSFTPBy(t, haul(t), dir, args...)
}

// beginSFTPBy is like beginSFTP for a haul with its own environment.
func beginSFTPBy(t *testing.T, h program, dir string, args ...string) (login, *daemon) {
	t.Helper()
	args = append([]string{"serve", dir, "--sftp", "127.0.0.1:0", "--host-keys", t.TempDir()}, args...)
	if !slices.Contains(args, "--users") {
		args = append(args, "--upload", "overwrite")
	}
	d := h.start(t, args...)
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

// TestSFTPHashes makes rclone compare files by the hashes that haul computes.
func TestSFTPHashes(t *testing.T) {
	dir, local := realDir(t), t.TempDir()
	names := slices.DeleteFunc(slices.Clone(oddNames), func(name string) bool {
		return strings.ContainsFunc(name, unicode.IsControl) // rclone has other names for these here
	})
	for _, name := range names {
		for _, in := range []string{dir, local} {
			if err := os.WriteFile(filepath.Join(in, name), []byte("the content of "+name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := rcloneAt(t, serveSFTP(t, dir))
	// One file is hashed first: rclone hashes all files at once, and takes a hash for failed if
	// it does not know yet which commands a server has. It remembers what it finds.
	mustRun(t, p, "", "hashsum", "md5", "server:.hidden")
	for _, hash := range []string{"md5", "sha1"} {
		served := mustRun(t, p, "", "hashsum", hash, "server:")
		if here := mustRun(t, p, "", "hashsum", hash, local); sortedLines(served) != sortedLines(here) || strings.Count(served, "\n") != len(names) {
			t.Errorf("%s of the server's files:\n%s\nand of the same here:\n%s", hash, served, here)
		}
	}
	mustRun(t, p, "", "check", "--checksum", local, "server:")
	// A file with the same size and time but other content differs only by its hash.
	name := "tilde"
	for in, text := range map[string]string{dir: "one", local: "two"} {
		file := filepath.Join(in, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := runTool(t, p, "", "check", local, "server:"); err == nil || !strings.Contains(err.Error(), "md5 differ") && !strings.Contains(err.Error(), "sha1 differ") {
		t.Errorf("rclone compares a file that differs: %v", err)
	}
}

func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
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
