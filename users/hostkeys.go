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
	hostKeySize = 64 << 10 // the largest size of a file, in bytes
)

// A HostKey proves to clients that a server is the same as last time.
type HostKey struct {
	Signer  ssh.Signer // for ssh.ServerConfig.AddHostKey
	File    string     // the path of its file; "" for a key in memory
	Created bool       // whether HostKeys has just created it
}

// Fingerprint returns the SHA-256 fingerprint of the key, as clients show it.
func (k HostKey) Fingerprint() string { return fingerprint(k.Signer.PublicKey()) }

// HostKeys loads the host keys in a directory: the files ssh_host_*_key, in the format of sshd. For
// a certificate, in a file with the same name followed by -cert.pub, it returns another HostKey. If
// there are no keys, it creates an Ed25519 key; if several servers start at the same time in one
// directory, all get the same key.
//
// HostKeys returns an error if everybody may read a key, if others than its owner may write it, or
// if it has a passphrase. If owners are given, it also returns an error if a key or certificate
// belongs to neither root nor one of them: see [Open].
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

// OneTimeHostKey creates an Ed25519 key that exists only in memory. Clients see another key after
// each start of the server.
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

// globQuote returns a pattern that matches only path.
func globQuote(path string) string {
	if os.PathSeparator != '/' { // Windows has no quoting in patterns
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
		return nil, fmt.Errorf("read %s: no private key", file) // the parser's error might reveal the key
	}
	if err := checkKey(signer.PublicKey()); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if a, ok := signer.(ssh.AlgorithmSigner); ok && signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		// Do not sign with SHA-1, even if a client prefers it.
		return ssh.NewSignerWithAlgorithms(a, []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256})
	}
	return signer, nil
}

// loadHostCert loads a certificate. It does not check whether the certificate is valid today,
// because clients do. A client that cannot use the certificate uses the key.
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

// createHostKey writes a key under a temporary name, and then gives it the right name, unless
// another process has done so meanwhile.
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
	defer func() { _ = os.Remove(temp.Name()) }() // a file that remains contains a key that is not used
	err = pem.Encode(temp, block)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err != nil {
		return false, err
	}
	// A hard link never replaces a file, unlike a rename.
	name := filepath.Join(dir, newHostKey)
	err = os.Link(temp.Name(), name)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil { // the file system has no hard links
		if _, err := os.Lstat(name); err == nil {
			return false, nil
		}
		if err := os.Rename(temp.Name(), name); err != nil {
			return false, err
		}
	}
	return true, syncDir(dir)
}
