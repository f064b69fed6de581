package openssh

import (
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

func TestKeyFiles(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		for _, passphrase := range []string{"", "open sesame"} {
			if passphrase != "" && kind != "ed25519" {
				continue // slow; TestKeygenFormats covers these
			}
			t.Run(kind+"/"+passphrase, func(t *testing.T) {
				file, key := writeKey(t, kind, passphrase)
				config := takes(key.PublicKey())
				config.PublicKeyAuthAlgorithms = secure.PublicKeyAuths // no SHA-1
				s := startServer(t, config)
				dest := s.dest(t)
				dest.IdentityFiles = []string{file}
				p := &script{passphrases: []string{"wrong", passphrase}}
				d := &Dialer{Prompter: p}
				dialOK(t, d, dest)
				dialOK(t, d, dest)
				want := 0
				if passphrase != "" {
					want = 2
				}
				if asked := p.log(); len(asked) != want {
					t.Errorf("asked %q", asked)
				}
			})
		}
	}
}

// A passphrase is asked for only when the server wants the key.
func TestPassphrase(t *testing.T) {
	file, key := writeKey(t, "ed25519", "secret phrase")
	unwanted, _ := writeKey(t, "ed25519", "another")
	s := startServer(t, takes(key.PublicKey()))
	dest := s.dest(t)
	dest.IdentityFiles = []string{unwanted, file}
	p := &script{passphrases: []string{"secret phrase"}}
	dialOK(t, &Dialer{Prompter: p}, dest)
	if asked := p.log(); !slices.Equal(asked, []string{"passphrase id_ed25519"}) {
		t.Errorf("asked %q", asked)
	}

	tests := []struct {
		name  string
		p     Prompter
		class error
		want  string
	}{
		{"wrong", &script{passphrases: []string{"hunter1", "hunter2", "hunter3", "secret phrase"}}, ErrAuth, "passphrases were wrong"},
		{"left out", &script{passphrases: []string{""}}, ErrAuth, "no passphrase was given"},
		{"nobody", nil, ErrAuth, "nobody to ask for the passphrase of " + file},
		{"broken off", &script{}, io.EOF, "EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := dialError(t, &Dialer{Prompter: test.p}, dest, test.class, test.want)
			if strings.Contains(fmt.Sprintf("%#v", err), "hunter") {
				t.Errorf("a passphrase is in %#v", err)
			}
		})
	}
}

// Many concurrent connections decrypt a key once.
func TestPassphraseAtOnce(t *testing.T) {
	file, key := writeKey(t, "ed25519", "x")
	s := startServer(t, takes(key.PublicKey()))
	dest := s.dest(t)
	dest.IdentityFiles = []string{file}
	p := &script{passphrases: []string{"x"}}
	d := &Dialer{Prompter: p}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			c, err := d.Dial(withTimeout(t), dest)
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Close()
		})
	}
	work.Wait()
	if asked := p.log(); len(asked) != 1 {
		t.Errorf("asked %d times", len(asked))
	}
}

// Keys work in every format that ssh-keygen writes.
func TestKeygenFormats(t *testing.T) {
	program(t, "ssh-keygen")
	for _, args := range []string{
		"-t ed25519", "-t rsa -b 2048", "-t ecdsa -b 256", "-t ecdsa -b 384", "-t ecdsa -b 521",
		"-t rsa -b 2048 -m PEM", "-t ecdsa -b 384 -m PEM", "-t rsa -b 2048 -m PKCS8", "-t ecdsa -m PKCS8",
	} {
		for _, passphrase := range []string{"", "some words"} {
			for _, public := range []bool{true, false} {
				if passphrase != "" && strings.HasSuffix(args, "PKCS8") || passphrase == "" && !public {
					continue // x/crypto/ssh cannot read encrypted PKCS#8, and plain keys need no .pub file
				}
				name := fmt.Sprintf("%s %q %v", args, passphrase, public)
				file := filepath.Join(t.TempDir(), "key")
				// One round of the slow hash suffices for a test.
				run(t, "ssh-keygen", append(strings.Fields(args), "-q", "-a", "1", "-N", passphrase, "-f", file)...)
				key, err := readPublic(file + ".pub")
				if err != nil {
					t.Fatal(err)
				}
				if !public {
					_ = os.Remove(file + ".pub")
				}
				s := startServer(t, takes(key))
				dest := s.dest(t)
				dest.IdentityFiles = []string{file}
				p := &script{passphrases: []string{"no", passphrase}}
				c, err := (&Dialer{Prompter: p}).Dial(withTimeout(t), dest)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				_ = c.Close()
				if asked := len(p.log()); (asked == 2) != (passphrase != "") {
					t.Errorf("%s: asked %d times", name, asked)
				}
			}
		}
	}
}

// A certificate is offered without its key's passphrase, which only a signature needs.
func TestCertificateOfSealedKey(t *testing.T) {
	file, key := writeKey(t, "ed25519", "pass")
	cert := certify(t, key.PublicKey(), newKey(t, "ed25519"), ssh.UserCert, nil)
	writeFile(t, file+"-cert.pub", string(ssh.MarshalAuthorizedKey(cert)))
	s := startServer(t, takes(cert))
	dest := s.dest(t)
	dest.IdentityFiles = []string{file}
	p := &script{passphrases: []string{"pass"}}
	dialOK(t, &Dialer{Prompter: p}, dest)
	if len(p.log()) != 1 {
		t.Error("the passphrase was not asked for once")
	}
}

// The error for a key that cannot be read says what to do.
func TestSealedPKCS8(t *testing.T) {
	s := startServer(t, takes(newKey(t, "ed25519").PublicKey()))
	dest := s.dest(t)
	dest.IdentityFiles = []string{writeFile(t, "id", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n")}
	dialFails(t, &Dialer{}, dest, ErrAuth, "encrypted PKCS#8 cannot be read here; ssh-keygen -p -f '"+dest.IdentityFiles[0]+"'")
}

// The file of a security key holds only a handle, so the key needs an agent.
func TestSecurityKey(t *testing.T) {
	public := ssh.Marshal(struct {
		Type, Key, Application string
	}{ssh.KeyAlgoSKED25519, strings.Repeat("k", 32), "ssh:"})
	body := append([]byte("openssh-key-v1\x00"), ssh.Marshal(struct {
		Cipher, KDF, Options string
		Keys                 uint32
		Public, Private      []byte
	}{"none", "none", "", 1, public, make([]byte, 64)})...)
	text := pem.EncodeToMemory(&pem.Block{Type: "OPENSSH PRIVATE KEY", Bytes: body})
	s := startServer(t, takes(newKey(t, "ed25519").PublicKey()))
	dest := s.dest(t)
	dest.IdentityFiles = []string{writeFile(t, "id_sk", string(text))}
	dialFails(t, &Dialer{}, dest, ErrAuth, "(sk-ssh-ed25519@openssh.com SHA256:", "no agent has the rest")
}

// A private key that others may read is not used, and the error says why.
func TestKeyOwner(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing")
	}
	file, key := writeKey(t, "ed25519", "")
	s := startServer(t, takes(key.PublicKey()))
	dest := s.dest(t)
	dest.IdentityFiles = []string{file}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	dialFails(t, &Dialer{}, dest, ErrAuth, "key "+file, "others may use it (mode 0640)", "chmod 600")
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	dialOK(t, &Dialer{}, dest)
}
