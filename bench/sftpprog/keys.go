package sftpprog

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// keyFiles holds the paths of the key files of one side of an SSH connection, with its user and
// cipher.
type keyFiles struct{ user, private, others, cipher string }

func (k *keyFiles) signer() (ssh.Signer, error) {
	b, err := os.ReadFile(k.private)
	if err != nil {
		return nil, fmt.Errorf("-key: %w", err)
	}
	s, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("-key %s: %w", k.private, err)
	}
	return s, nil
}

func (k *keyFiles) algorithms() ssh.Config {
	if k.cipher == "" {
		return ssh.Config{}
	}
	return ssh.Config{Ciphers: []string{k.cipher}}
}

func (k *keyFiles) client() (*ssh.ClientConfig, error) {
	s, err := k.signer()
	if err != nil {
		return nil, err
	}
	known, err := knownhosts.New(k.others)
	if err != nil {
		return nil, fmt.Errorf("-trust: %w", err)
	}
	return &ssh.ClientConfig{
		Config: k.algorithms(), User: k.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(s)},
		HostKeyCallback: known, HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	}, nil
}

var errStranger = errors.New("this key is not in authorized_keys")

func (k *keyFiles) server() (*ssh.ServerConfig, error) {
	s, err := k.signer()
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(k.others)
	if err != nil {
		return nil, fmt.Errorf("-trust: %w", err)
	}
	friend, _, _, _, err := ssh.ParseAuthorizedKey(b)
	if err != nil {
		return nil, fmt.Errorf("-trust %s: %w", k.others, err)
	}
	c := &ssh.ServerConfig{Config: k.algorithms(), PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), friend.Marshal()) {
			return nil, errStranger
		}
		return nil, nil
	}}
	c.AddHostKey(s)
	return c, nil
}
