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
	hostKeySize = 64 << 10 // largest size of a key file, in bytes
)

// A HostKey is a key by which clients recognize a server.
type HostKey struct {
	Signer  ssh.Signer // the key, to be passed to ssh.ServerConfig.AddHostKey
	File    string     // path of its file; "" for a key that exists only in memory
	Created bool       // HostKeys or OneTimeHostKey has just created the key
}

// Fingerprint returns the SHA-256 fingerprint of the key, as clients show it.
func (k HostKey) Fingerprint() string { return fingerprint(k.Signer.PublicKey()) }

// HostKeys loads the host keys in a directory: the files ssh_host_*_key, in the format of sshd. If
// there is a certificate for a key, in a file of the same name followed by -cert.pub, it returns
// one more HostKey, for the certificate. If there are no keys, it creates an Ed25519 key. If several
// servers do that in one directory at the same time, all of them get the same key.
//
// HostKeys returns an error if everybody may read a key, if someone other than its owner may write
// to it, or if it has a passphrase. With owners, it also returns an error if a key or certificate
// belongs to neither root nor one of the owners: see [Open].
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

// OneTimeHostKey creates an Ed25519 key that exists only in memory. After each start of the server,
// clients see a different key.
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

// globQuote returns a pattern that matches only the given path.
func globQuote(path string) string {
	if os.PathSeparator != '/' { // patterns on Windows have no quoting
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
		// The parser's error is not included, because it might reveal the key.
		return nil, fmt.Errorf("read %s: no private key", file)
	}
	if err := checkKey(signer.PublicKey()); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if a, ok := signer.(ssh.AlgorithmSigner); ok && signer.PublicKey().Type() == ssh.KeyAlgoRSA {
		// With SHA-2 only: do not sign with SHA-1, even if a client prefers that.
		return ssh.NewSignerWithAlgorithms(a, []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256})
	}
	return signer, nil
}

// loadHostCert loads a certificate. It does not check whether the certificate is valid at present,
// because clients do that. A client that cannot use the certificate uses the key itself.
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

// createHostKey writes a key to a temporary file, and then gives it the final name. It returns
// false if another process has created a key of that name meanwhile.
func createHostKey(dir string) (created bool, err error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return false, err
	}
	block, err := ssh.MarshalPrivateKey(private, "haul")
	if err != nil {
		return false, err
	}
	temp, err := os.CreateTemp(dir, "."+newHostKey+".*") // CreateTemp sets the permissions to 0600
	if err != nil {
		return false, err
	}
	// If this fails, the file that stays contains a key that nobody uses.
	defer func() { _ = os.Remove(temp.Name()) }()
	err = pem.Encode(temp, block)
	err = errors.Join(err, temp.Sync(), temp.Close())
	if err != nil {
		return false, err
	}
	// Unlike a rename, a hard link never replaces a file.
	name := filepath.Join(dir, newHostKey)
	err = os.Link(temp.Name(), name)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil { // the file system does not support hard links
		if _, err := os.Lstat(name); err == nil {
			return false, nil
		}
		if err := os.Rename(temp.Name(), name); err != nil {
			return false, err
		}
	}
	return true, syncDir(dir)
}
