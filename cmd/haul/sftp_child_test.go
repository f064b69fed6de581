//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/sftp/sftpclient"
)

// An sftpChild is an SFTP server in a process of its own.
type sftpChild struct {
	*child
	at       string // the server's address as HOST:PORT
	password string // password of the user for one run; "" with a users file
	key      string // fingerprint of the host key
}

// startSFTP runs "haul serve --sftp" on a free port until it has printed its address. The host keys
// are in a temporary directory unless the arguments name one.
func startSFTP(t *testing.T, o childOptions, args ...string) *sftpChild {
	t.Helper()
	args = append([]string{"serve", "--sftp", "127.0.0.1:0"}, args...)
	if !strings.Contains(strings.Join(args, " "), "--host-keys") {
		args = append(args, "--host-keys", filepath.Join(t.TempDir(), "keys"))
	}
	if all := strings.Join(args, " "); !strings.Contains(all, "--upload") && !strings.Contains(all, "--users") {
		args = append(args, "--upload", "overwrite") // most tests need this
	}
	o.env = append(o.env, noUsers(t))
	s := &sftpChild{child: runChild(t, o, args...)}
	s.awaitSFTP()
	return s
}

// noUsers hides this machine's users file from a child.
func noUsers(t *testing.T) string {
	t.Helper()
	return "CONFIGURATION_DIRECTORY=" + t.TempDir()
}

// awaitSFTP parses the server's messages about itself.
func (s *sftpChild) awaitSFTP() {
	s.t.Helper()
	text := s.await(" on sftp://", "host key ", "\n")
	s.at = wordAfter(text, " on sftp://")
	s.key = wordAfter(text, "host key ssh-ed25519 ")
	if !strings.Contains(strings.Join(s.cmd.Args, " "), "--users") {
		s.password = wordAfter(s.await("with the password ", " (for this run only"), "with the password ")
	} else {
		s.await("haul: ", ", from ", "\n")
	}
}

// once returns a configuration to log in as the user for one run.
func (s *sftpChild) once() *ssh.ClientConfig { return s.as("haul", ssh.Password(s.password)) }

// as returns a configuration to log in as a user, and only on this server.
func (s *sftpChild) as(user string, methods ...ssh.AuthMethod) *ssh.ClientConfig {
	return &ssh.ClientConfig{User: user, Auth: methods, HostKeyCallback: s.checkKey, Timeout: patience}
}

// checkKey accepts only the key that the server has announced.
func (s *sftpChild) checkKey(_ string, _ net.Addr, key ssh.PublicKey) error {
	if got := ssh.FingerprintSHA256(key); got != s.key {
		return fmt.Errorf("the host key is %s, and %q was announced", got, s.key)
	}
	return nil
}

// login opens a connection.
func (s *sftpChild) login(config *ssh.ClientConfig) *ssh.Client {
	s.t.Helper()
	c, err := ssh.Dial("tcp", s.at, config)
	if err != nil {
		s.t.Fatalf("log in as %s: %v", config.User, err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// wantNoLogin checks that a login is refused.
func (s *sftpChild) wantNoLogin(config *ssh.ClientConfig) {
	s.t.Helper()
	if c, err := ssh.Dial("tcp", s.at, config); err == nil {
		c.Close()
		s.t.Errorf("%s is let in", config.User)
	}
}

// wantNoFiles checks that a user can log in but gets no files, and receives an error that says so.
func (s *sftpChild) wantNoFiles(config *ssh.ClientConfig) {
	s.t.Helper()
	c, err := sftpclient.Dial(s.t.Context(), s.at, config, sftpclient.Config{Conns: 1})
	if err == nil {
		c.Close()
		s.t.Errorf("%s has files", config.User)
	} else if !strings.Contains(err.Error(), "cannot open the account's files") {
		s.t.Errorf("%s: %v", config.User, err)
	}
}

// files opens an SFTP client for a user.
func (s *sftpChild) files(config *ssh.ClientConfig) *sftpFiles {
	s.t.Helper()
	c, err := sftpclient.Dial(s.t.Context(), s.at, config, sftpclient.Config{Conns: 1})
	if err != nil {
		s.t.Fatalf("log in as %s: %v", config.User, err)
	}
	s.t.Cleanup(func() { c.Close() })
	return &sftpFiles{s.t, c}
}

// sftpFiles are the files that a client sees.
type sftpFiles struct {
	t *testing.T
	*sftpclient.Client
}

func (f *sftpFiles) read(name string) (string, error) {
	file, err := f.Open(f.t.Context(), name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	b, err := io.ReadAll(file)
	return string(b), err
}

// write writes a file as stock clients do: it creates, writes and closes it.
func (f *sftpFiles) write(name, content string) error {
	file, err := f.OpenFile(f.t.Context(), name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write([]byte(content))
	return errors.Join(err, file.Close())
}

func (f *sftpFiles) wantRead(name, want string) {
	f.t.Helper()
	if got, err := f.read(name); err != nil || got != want {
		f.t.Errorf("read %s: %q, %v; want %q", name, got, err, want)
	}
}

func (f *sftpFiles) wantWrite(name, content string) {
	f.t.Helper()
	if err := f.write(name, content); err != nil {
		f.t.Errorf("write %s: %v", name, err)
	}
}

// want checks that an operation has succeeded.
func (f *sftpFiles) want(what string, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Errorf("%s: %v", what, err)
	}
}

// wantRefused checks that an operation was refused.
func (f *sftpFiles) wantRefused(what string, err error) {
	f.t.Helper()
	if !errors.Is(err, fs.ErrPermission) {
		f.t.Errorf("%s: %v, want that it is refused", what, err)
	}
}

// names returns the names in a directory.
func (f *sftpFiles) names(dir string) string {
	f.t.Helper()
	entries, err := f.ReadDir(f.t.Context(), dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// newLogin creates a login key, and the line that permits it.
func newLogin(t *testing.T) (login ssh.AuthMethod, line string) {
	t.Helper()
	key, _ := servetest.NewKey(t)
	return ssh.PublicKeys(key), strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
}

// usersFile writes a users file in a directory of its own. Only this user may enter it, and for
// root also nobody's group.
func usersFile(t *testing.T, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "etc")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "users")
	writeUsers(t, path, text)
	if os.Geteuid() == 0 {
		if err := errors.Join(os.Chown(dir, 0, 65534), openUpTo(dir)); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// openUpTo lets everybody enter the temporary directories above a path.
func openUpTo(dir string) error {
	var errs []error
	for dir = filepath.Dir(dir); len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		errs = append(errs, os.Chmod(dir, 0o755))
	}
	return errors.Join(errs...)
}

// writeUsers replaces a users file in one step, like "haul user".
func writeUsers(t *testing.T, path, text string) {
	t.Helper()
	err := os.WriteFile(path+".new", []byte(text), 0o640)
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(path+".new", 0, 65534)
	}
	if err = errors.Join(err, os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}
