package users

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

const (
	newHostKey  = "ssh_host_ed25519_key"
	maxHostKeys = 16
	hostKeySize = 64 << 10 // bytes of a file at most
)

// A HostKey is what a server proves with that it is the same as last time.
type HostKey struct {
	Signer  ssh.Signer // for ssh.ServerConfig.AddHostKey
	File    string     // where it is; "" for a key in memory
	Created bool       // just now
}

// Fingerprint returns the SHA-256 fingerprint of the key, as clients show it.
func (k HostKey) Fingerprint() string { return fingerprint(k.Signer.PublicKey()) }

// HostKeys loads the host keys in a directory: the files ssh_host_*_key, as
// sshd has them. For a certificate, in a file of the same name with -cert.pub
// behind it, there is one HostKey more. If there is none, an Ed25519 key is
// made; of several servers that start at the same time in one directory, all
// get the same.
//
// A key that everybody may read, or others than its owner may write, is an
// error, and so is one with a passphrase. If owners are given, a key or certificate
// that belongs to neither root nor one of them is one too: see [Open].
func HostKeys(dir string, owners ...int) ([]HostKey, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("host keys: %w", err)
	}
	keys, err := loadHostKeys(dir, owners)
	if err == nil && len(keys) == 0 {
		created, createErr := createHostKey(dir)
		if createErr != nil {
			return nil, fmt.Errorf("create a host key: %w", createErr)
		}
		keys, err = loadHostKeys(dir, owners)
		for i := range keys {
			keys[i].Created = created
		}
		if err == nil && len(keys) == 0 {
			err = errors.New("the key just made is gone")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("host keys in %s: %w", dir, err)
	}
	return keys, nil
}

// OneTimeHostKey makes an Ed25519 key that is kept in memory only. Clients see another
// key after each start of the server.
func OneTimeHostKey() (HostKey, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return HostKey{}, fmt.Errorf("create a host key: %w", err)
	}
	signer, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		return HostKey{}, fmt.Errorf("create a host key: %w", err)
	}
	return HostKey{Signer: signer, Created: true}, nil
}

func loadHostKeys(dir string, owners []int) (keys []HostKey, err error) {
	files, err := filepath.Glob(filepath.Join(globQuote(dir), "ssh_host_*_key"))
	if err != nil {
		return nil, err
	}
	if len(files) > maxHostKeys {
		return nil, fmt.Errorf("%d keys, and %d are the most", len(files), maxHostKeys)
	}
	for _, file := range files {
		signer, err := loadHostKey(file, owners)
		if err != nil {
			return nil, err
		}
		keys = append(keys, HostKey{Signer: signer, File: file})
		cert, err := loadHostCert(file+"-cert.pub", signer, owners)
		switch {
		case err == nil:
			keys = append(keys, HostKey{Signer: cert, File: file + "-cert.pub"})
		case !missing(err):
			return nil, err
		}
	}
	return keys, nil
}

// globQuote makes a path one that matches itself alone.
func globQuote(path string) string {
	if os.PathSeparator != '/' { // no quoting there
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func loadHostKey(file string, owners []int) (ssh.Signer, error) {
	l := loader{owners: owners}
	text, err := l.readOurs(file, hostKeySize, openToOthers|writable)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey([]byte(text))
	if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
		return nil, fmt.Errorf("read %s: the key has a passphrase", file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: no private key", file) // the parser's error might reveal it
	}
	if err := checkKey(signer.PublicKey()); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if a, ok := signer.(ssh.AlgorithmSigner); ok && signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		// Not with SHA-1, even if a client would like that best.
		return ssh.NewSignerWithAlgorithms(a, []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256})
	}
	return signer, nil
}

// loadHostCert loads a certificate. Whether it is valid today is for the
// clients to see, and those that can't use it take the key.
func loadHostCert(file string, signer ssh.Signer, owners []int) (ssh.Signer, error) {
	l := loader{owners: owners}
	text, err := l.readOurs(file, hostKeySize, writable)
	if err != nil {
		return nil, err
	}
	k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: no certificate", file)
	}
	c, ok := k.(*ssh.Certificate)
	switch {
	case !ok || c.CertType != ssh.HostCert:
		return nil, fmt.Errorf("read %s: no certificate of a host", file)
	case !bytes.Equal(c.Key.Marshal(), signer.PublicKey().Marshal()):
		return nil, fmt.Errorf("read %s: the certificate of another key", file)
	}
	return ssh.NewCertSigner(c, signer)
}

// createHostKey makes a key under a name of its own, and then gives it the
// right one, unless another process did so meanwhile.
func createHostKey(dir string) (created bool, err error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return false, err
	}
	block, err := ssh.MarshalPrivateKey(private, "haul")
	if err != nil {
		return false, err
	}
	temp, err := os.CreateTemp(dir, "."+newHostKey+".*") // with permissions 0600
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // a file that remains is a key that is not used
	err = pem.Encode(temp, block)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err != nil {
		return false, err
	}
	// A link never replaces a file, as a rename would.
	name := filepath.Join(dir, newHostKey)
	err = os.Link(temp.Name(), name)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil { // a file system without links
		if _, err := os.Lstat(name); err == nil {
			return false, nil
		}
		if err := os.Rename(temp.Name(), name); err != nil {
			return false, err
		}
	}
	return true, syncDir(dir)
}
