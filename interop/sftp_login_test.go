//go:build unix

package interop

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// A keyPair is an SSH key in memory and in two files.
type keyPair struct {
	signer ssh.Signer
	file   string // the private key; the public one is in file + ".pub"
}

// line returns the public key in the format of authorized_keys.
func (k keyPair) line() string { return string(ssh.MarshalAuthorizedKey(k.signer.PublicKey())) }

// newKeyPair makes a key, whose files in dir have the given name.
func newKeyPair(dir, name string) (keyPair, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return keyPair{}, err
	}
	block, err := ssh.MarshalPrivateKey(private, name)
	if err != nil {
		return keyPair{}, err
	}
	k := keyPair{file: filepath.Join(dir, name)}
	if k.signer, err = ssh.NewSignerFromKey(private); err != nil {
		return k, err
	}
	if err := os.WriteFile(k.file, pem.EncodeToMemory(block), 0o600); err != nil {
		return k, err
	}
	return k, os.WriteFile(k.file+".pub", []byte(k.line()), 0o600)
}

// Keys for all tests: one that can log in everywhere, and one of all peers' servers.
var (
	userKey = sync.OnceValues(func() (keyPair, error) { return newKeyPair(temp, "id_user") })
	hostKey = sync.OnceValues(func() (keyPair, error) { return newKeyPair(temp, "id_host") })
)

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A login contains everything that is needed to use an SFTP server.
type login struct {
	addr     string // host and port
	user     string
	key      string        // the file of the private key
	cert     string        // the file of its certificate, or ""
	password string        // instead of the key
	host     ssh.PublicKey // the server's key
	dir      string        // local path of the served directory
	home     string        // the server's path of it, in which the user begins
}

// newLogin returns a login with userKey to one of the peers' servers.
func newLogin(t *testing.T, addr, dir, home string) login {
	return login{
		addr: addr, user: "haul", key: must[keyPair](t)(userKey()).file,
		host: must[keyPair](t)(hostKey()).signer.PublicKey(), dir: dir, home: home,
	}
}

func (l login) port() string {
	_, port, _ := net.SplitHostPort(l.addr)
	return port
}

// known writes a known_hosts file.
func (l login) known(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(name, []byte(knownhosts.Line([]string{l.addr}, l.host)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// sshConfig writes an ssh_config file that names the server "server", for OpenSSH's programs and
// those that start them.
func (l login) sshConfig(t *testing.T, more ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ssh_config")
	config := fmt.Sprintf(`Host server
HostName 127.0.0.1
Port %s
User %s
IdentityFile %s
IdentitiesOnly yes
UserKnownHostsFile %s
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking yes
BatchMode yes
LogLevel ERROR
`, l.port(), l.user, l.key, l.known(t))
	if l.cert != "" {
		config += "CertificateFile " + l.cert + "\n"
	}
	for _, line := range more {
		config += line + "\n"
	}
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
