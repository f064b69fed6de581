package peer

import (
	"crypto/ed25519"
	"encoding/pem"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Keys has the files with which the two sides of an SSH connection authenticate each other. All
// contenders use the same.
type Keys struct {
	User       string // login name
	Private    string // the user's private key
	Authorized string // authorized_keys with that key
	Host       string // the server's key, which is alone in its directory
	Users      string // haul's users file, with this user
	Known      string // known_hosts, see Trust

	host ssh.PublicKey
}

// NewKeys makes keys in a directory, which nobody else should be able to read.
func NewKeys(dir, user string) (*Keys, error) {
	k := &Keys{
		User: user, Private: filepath.Join(dir, "key"), Authorized: filepath.Join(dir, "authorized_keys"),
		Host: filepath.Join(dir, "host", "ssh_host_ed25519_key"), Known: filepath.Join(dir, "known_hosts"),
		Users: filepath.Join(dir, "users"),
	}
	if err := os.Mkdir(filepath.Dir(k.Host), 0o700); err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	mine, err := newKey(k.Private)
	if err != nil {
		return nil, err
	}
	if k.host, err = newKey(k.Host); err != nil {
		return nil, err
	}
	line := ssh.MarshalAuthorizedKey(mine)
	for path, text := range map[string]string{
		k.Authorized: string(line), k.Users: fmt.Sprintf("user %s\n  key %s", user, line),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("make keys: %w", err)
		}
	}
	return k, nil
}

// newKey writes a private key, and returns the public one.
func newKey(path string) (ssh.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "bench")
	if err == nil {
		err = os.WriteFile(path, pem.EncodeToMemory(block), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("make keys: %w", err)
	}
	return ssh.NewPublicKey(public)
}

// Trust sets the address of the server: Known then contains only that address.
func (k *Keys) Trust(server netip.AddrPort) error {
	line := knownhosts.Line([]string{server.String()}, k.host) + "\n"
	if err := os.WriteFile(k.Known, []byte(line), 0o600); err != nil {
		return fmt.Errorf("write known_hosts: %w", err)
	}
	return nil
}
