package openssh

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/crypto/ssh"
)

// maxKeyFile is the maximum size of a key file, in bytes.
const maxKeyFile = 1 << 20

// A keyFile is the content of an IdentityFile.
type keyFile struct {
	public ssh.PublicKey // nil if the public key is not known before decryption
	signer ssh.Signer    // the private key; nil if it is encrypted or missing
	sealed []byte        // the encrypted private key; nil if the key is not encrypted, or missing

	refused error // why the private key in the file is not used; nil if it is used or missing
}

// readKeyFile reads a key file: a private key, or the public key of a private key that an agent
// holds. If the named file is missing, it reads the public key in the file with ".pub" appended to
// the name.
func readKeyFile(name string) (keyFile, error) {
	var open error // set if others can read the file, which matters only for a private key
	text, err := readSmall(name, func(info fs.FileInfo) error {
		open = checkKeyOwner(info)
		return nil
	})
	if err != nil {
		// The private key is missing, but the public key may suffice.
		if public, perr := readPublic(name + ".pub"); perr == nil && errors.Is(err, fs.ErrNotExist) {
			return keyFile{public: public}, nil
		}
		return keyFile{}, err
	}
	if public, err := parsePublic(text); err == nil {
		return keyFile{public: public}, nil
	}
	k, err := parseKeyFile(name, text)
	if open == nil {
		return k, err
	}
	// As in ssh, continue with the public key, because an agent may have the private key.
	if k.public == nil {
		return keyFile{}, fmt.Errorf("%s: %w", name, open)
	}
	return keyFile{public: k.public, refused: open}, nil
}

// parseKeyFile reads the text of a private key.
func parseKeyFile(name string, text []byte) (keyFile, error) {
	signer, err := ssh.ParsePrivateKey(text)
	missing, sealed := errors.AsType[*ssh.PassphraseMissingError](err)
	switch {
	case err == nil:
		return keyFile{public: signer.PublicKey(), signer: signer}, nil
	case sealed:
		k := keyFile{public: missing.PublicKey, sealed: text}
		if k.public == nil {
			k.public, _ = readPublic(name + ".pub")
		}
		return k, nil
	}
	if bytes.Contains(text, []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----")) {
		return keyFile{}, fmt.Errorf("%s: encrypted PKCS#8 cannot be read here; ssh-keygen -p -f '%s' writes it in OpenSSH's format", name, name)
	}
	// For a security key, the file contains only a handle, and only an agent can sign.
	if public := publicPart(text); public != nil && strings.HasPrefix(public.Type(), "sk-") {
		return keyFile{public: public}, nil
	}
	return keyFile{}, fmt.Errorf("%s: %w", name, err)
}

// readSmall reads a file of at most maxKeyFile bytes, unless vet returns an error for it.
func readSmall(name string, vet func(fs.FileInfo) error) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("it is a directory")
	}
	if err == nil {
		err = vet(info)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%s: more than %d bytes are no key", name, maxKeyFile)
	}
	return text, nil
}

// readPublic reads a public key or a certificate.
func readPublic(name string) (ssh.PublicKey, error) {
	text, err := readSmall(name, func(fs.FileInfo) error { return nil })
	if err != nil {
		return nil, err
	}
	key, err := parsePublic(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return key, nil
}

func parsePublic(text []byte) (ssh.PublicKey, error) {
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	return key, err
}

// publicPart returns the public key in a private key file of OpenSSH's format, where the public key
// is never encrypted. For any other text it returns nil. See PROTOCOL.key of OpenSSH.
func publicPart(text []byte) ssh.PublicKey {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "OPENSSH PRIVATE KEY" {
		return nil
	}
	body, ok := bytes.CutPrefix(block.Bytes, []byte("openssh-key-v1\x00"))
	var header struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public               []byte
		Rest                 []byte `ssh:"rest"`
	}
	if !ok || ssh.Unmarshal(body, &header) != nil {
		return nil
	}
	key, err := ssh.ParsePublicKey(header.Public)
	if err != nil {
		return nil
	}
	return key
}

// open decrypts the private key. It returns x509.IncorrectPasswordError if the passphrase is wrong.
func (k keyFile) open(passphrase string) (ssh.Signer, error) {
	signer, err := ssh.ParsePrivateKeyWithPassphrase(k.sealed, []byte(passphrase))
	if err != nil && !bytes.Contains(k.sealed, []byte("OPENSSH PRIVATE KEY")) {
		// The old formats have no checksum. So one in several hundred wrong passphrases seems to be
		// right, and yields data that looks like a broken key.
		return nil, x509.IncorrectPasswordError
	}
	if err != nil {
		return nil, err
	}
	if k.public != nil && !bytes.Equal(signer.PublicKey().Marshal(), k.public.Marshal()) {
		return nil, errors.New("the private key is not the one of the public key")
	}
	return signer, nil
}
