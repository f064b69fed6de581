package main

import (
	"context"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/users"
)

// A lab is an SFTP server for a directory in this process, together with a user's files to reach
// it: a configuration that calls it "lab", a key, and a known_hosts file with its host key.
type lab struct {
	t      *testing.T
	dir    string // the served directory
	home   string // the user's home directory
	addr   string
	port   string
	config string // path of an ssh_config file
	key    string // path of the private key
	known  string // path of known_hosts
	host   ssh.PublicKey
	files  store.Tree
	server *sftp.Server
}

// labOptions change the server or the account of a lab.
type labOptions struct {
	tree     func(store.Tree) store.Tree // wraps the directory
	password string                      // also accepted for the account
	locked   bool                        // the user's key has the passphrase lockedPhrase
	server   func(*sftp.Server)
	account  func(*sftp.Account)
	dir      string // the user's initial directory
}

// startLab serves a new directory with the given files.
func startLab(t *testing.T, files map[string]string) *lab {
	return startLabWith(t, labOptions{}, files)
}

func startLabWith(t *testing.T, o labOptions, files map[string]string) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir(), home: t.TempDir()}
	for name, content := range files {
		writeFile(t, filepath.Join(l.dir, name), content)
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	l.files = localdir.New(root)
	if o.tree != nil {
		l.files = o.tree(l.files)
	}
	host, _ := servetest.NewKey(t)
	l.host = host.PublicKey()
	l.key = filepath.Join(l.home, "key")
	write := writeKey
	if o.locked {
		write = writeLockedKey
	}
	me := users.User{Name: "me", Keys: []users.Key{parseKey(t, write(t, l.key))}}
	if o.password != "" {
		if me.Password, err = users.HashPassword([]byte(o.password)); err != nil {
			t.Fatal(err)
		}
	}
	who, err := users.New(me)
	if err != nil {
		t.Fatal(err)
	}
	s := &sftp.Server{
		SSH: servetest.SSHConfig(host, who),
		Login: func(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
			if _, ok := users.LoginOf(c.Permissions); !ok {
				return nil, errors.New("nobody has logged in")
			}
			a := &sftp.Account{User: c.User(), Tree: l.files, Dir: o.dir}
			if o.account != nil {
				o.account(a)
			}
			return a, nil
		},
		Owner: func(id uint32, group bool) string { return "" },
	}
	if o.server != nil {
		o.server(s)
	}
	l.server = s
	t.Cleanup(func() { _ = root.Close() }) // once the server has ended
	l.addr = servetest.SFTP(t, s)
	_, l.port, _ = net.SplitHostPort(l.addr)
	l.known = filepath.Join(l.home, "known_hosts")
	l.know(l.host)
	l.config = filepath.Join(l.home, "config")
	l.configure("IdentityFile " + l.key)
	return l
}

// know makes this key the only one of the server in known_hosts.
func (l *lab) know(key ssh.PublicKey) {
	l.t.Helper()
	writeFile(l.t, l.known, fmt.Sprintf("[127.0.0.1]:%s %s", l.port, ssh.MarshalAuthorizedKey(key)))
}

// configure writes the configuration, with additional lines about the server.
func (l *lab) configure(lines ...string) {
	l.t.Helper()
	writeFile(l.t, l.config, fmt.Sprintf(`Host lab twin
  HostName 127.0.0.1
  Port %s
Host lab twin 127.0.0.1
  User me
  UserKnownHostsFile %q
  GlobalKnownHostsFile none
  IdentityAgent none
  IdentitiesOnly yes
  %s
`, l.port, l.known, strings.Join(lines, "\n  ")))
}

// haul runs a command as the lab's user.
func (l *lab) haul(args ...string) (code int, stdout, stderr string) {
	l.t.Helper()
	return haul(l.t, l.args(args...)...)
}

// args returns the arguments of a command, with the flags to reach the lab.
func (l *lab) args(args ...string) []string {
	return append([]string{args[0], "-F", l.config, "--batch"}, args[1:]...)
}

// must runs a command that must succeed, and returns its standard output.
func (l *lab) must(args ...string) string {
	l.t.Helper()
	code, out, msg := l.haul(args...)
	if code != 0 {
		l.t.Fatalf("haul %q: exit code %d, %s", args, code, msg)
	}
	return out
}

// labPatience bounds how long a test waits for an event.
const labPatience = time.Minute

// url returns the URL of a path.
func (l *lab) url(path string) string { return "sftp://" + l.addr + path }

// writeKey writes a new private key to a file, and returns the public key as a line of
// authorized_keys.
func writeKey(t *testing.T, file string) string {
	t.Helper()
	key, private := servetest.NewKey(t)
	if err := os.WriteFile(file, pem.EncodeToMemory(private), 0o600); err != nil {
		t.Fatal(err)
	}
	return string(ssh.MarshalAuthorizedKey(key.PublicKey()))
}

// lockedKey is a private key that is used nowhere else. It was made with ssh-keygen -a 1, that is,
// with one round of the function that derives a key from its passphrase. Package ssh always uses 16
// rounds, which take seconds under the race detector.
//
//go:embed testdata/locked_ed25519
var lockedKey []byte

// lockedPhrase is the passphrase of lockedKey.
const lockedPhrase = "abracadabra"

// writeLockedKey does the same as writeKey for a key with a passphrase, which is always lockedKey.
func writeLockedKey(t *testing.T, file string) string {
	t.Helper()
	if err := os.WriteFile(file, lockedKey, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ssh.ParseRawPrivateKey(lockedKey)
	missing, ok := errors.AsType[*ssh.PassphraseMissingError](err)
	if !ok {
		t.Fatalf("a key with a passphrase opens without: %v", err)
	}
	return string(ssh.MarshalAuthorizedKey(missing.PublicKey))
}

func parseKey(t *testing.T, line string) users.Key {
	t.Helper()
	k, err := users.ParseKey(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return k
}
