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

// Keys holds the paths of the files with which the two sides of an SSH connection authenticate each
// other. All contenders use the same files.
type Keys struct {
	User       string // login name
	Private    string // file with the user's private key
	Authorized string // file in the format of authorized_keys, with the user's key
	Host       string // file with the server's private key, the only file in its directory
	Users      string // haul's users file, with User and the user's key
	Known      string // file in the format of known_hosts: see Trust

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

// newKey makes a key pair, writes the private key to a file, and returns the public key.
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

// Trust writes the file Known. It then contains only the server's key, for the given address.
func (k *Keys) Trust(server netip.AddrPort) error {
	line := knownhosts.Line([]string{server.String()}, k.host) + "\n"
	if err := os.WriteFile(k.Known, []byte(line), 0o600); err != nil {
		return fmt.Errorf("write known_hosts: %w", err)
	}
	return nil
}
