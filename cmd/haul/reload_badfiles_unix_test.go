//go:build unix

package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// If a users file or a certificate becomes invalid or disappears, the old one stays in force, and
// the log has a line about it: both while the server runs and after a reload, which fails.
func TestReloadBadFiles(t *testing.T) {
	login, key := newLogin(t)
	usersText := "user alice\n  key " + key + "\n"
	path := usersFile(t, usersText)
	dir, pem, other := servedDir(t, map[string]string{"kernel": "image"}), t.TempDir(), t.TempDir()
	_, trust := certificate(t, pem)
	certificate(t, other)
	cert := filepath.Join(pem, "cert.pem")
	certText, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	otherCert, err := os.ReadFile(filepath.Join(other, "cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "haul.toml")
	writeFile(t, config, fmt.Sprintf("dirs = [%q]\n[sftp]\nlisten = '127.0.0.1:0'\nusers = %q\nhost_keys = %q\n[https]\nlisten = '127.0.0.1:0'\ncert = %q\nkey = %q\n",
		dir, path, filepath.Join(t.TempDir(), "keys"), cert, filepath.Join(pem, "key.pem")))
	s := &sftpChild{child: runChild(t, childOptions{}, "serve", "--config", config)}
	text := s.await(" on sftp://", "host key ", " on https://", "\n")
	s.at, s.key = wordAfter(text, " on sftp://"), wordAfter(text, "host key ssh-ed25519 ")
	host := wordAfter(text, " on https://")

	for _, spoil := range []struct {
		name, file string
		by         func(file string) error
		says       string
	}{
		{"users with a mistake", path, func(file string) error { return os.WriteFile(file, []byte(usersText+"nonsense\n"), 0o640) }, "line 3"},
		{"users that anybody may write", path, func(file string) error { return os.Chmod(file, 0o666) }, "write"},
		{"users that are a directory", path, func(file string) error { return os.Mkdir(file, 0o750) }, "users"},
		{"no users", path, func(string) error { return nil }, "no such file"},
		{"garbage for a certificate", cert, func(file string) error { return os.WriteFile(file, []byte("garbage"), 0o600) }, "PEM"},
		{"a certificate of another key", cert, func(file string) error { return os.WriteFile(file, otherCert, 0o600) }, "does not match"},
		{"no certificate", cert, func(string) error { return nil }, "no such file"},
	} {
		begin := len(s.stderr.String())
		works := func() {
			t.Helper()
			session := s.files(s.as("alice", login))
			session.wantRead("kernel", "image")
			session.Close()
			c, err := tls.Dial("tcp", host, trust)
			if err != nil {
				t.Fatalf("%s: %v", spoil.name, err)
			}
			c.Close()
		}
		// said waits until the log has all these words since the file was spoiled. A TLS handshake
		// makes the server look for a new certificate.
		said := func(words ...string) {
			t.Helper()
			eventually(t, fmt.Sprintf("%s: the log has %q", spoil.name, words), func() bool {
				if c, err := tls.Dial("tcp", host, trust); err == nil {
					c.Close()
				}
				return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s.stderr.String()[begin:], w) })
			})
		}
		if spoil.name != "users that anybody may write" {
			if err := os.Remove(spoil.file); err != nil {
				t.Fatal(err)
			}
		}
		if err := spoil.by(spoil.file); err != nil {
			t.Fatal(err)
		}
		works()
		said("level=WARN", spoil.says)
		s.signal(syscall.SIGHUP)
		said("level=ERROR", "reload: there is no successor", spoil.file)
		works()
		if err := os.RemoveAll(spoil.file); err != nil {
			t.Fatal(err)
		}
		if spoil.file == cert {
			writeFile(t, cert, string(certText))
		} else {
			writeUsers(t, path, usersText)
		}
	}
	s.signal(syscall.SIGHUP)
	pid := s.succeeded(1)
	session := s.files(s.as("alice", login))
	session.wantRead("kernel", "image")
	session.Close()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.wantExit(0)
}
