package openssh

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// openServer returns a server configuration that lets everybody in.
func openServer() *ssh.ServerConfig { return &ssh.ServerConfig{NoClientAuth: true} }

// knows writes the known_hosts file of a destination.
func knows(t *testing.T, d *Destination, lines ...string) {
	t.Helper()
	writeFile(t, d.UserKnownHostsFiles[0], strings.Join(lines, "\n")+"\n")
}

func TestUnknownHost(t *testing.T) {
	s := startServer(t, openServer())
	key := s.keys[0].PublicKey()
	fingerprint := ssh.FingerprintSHA256(key)
	tests := []struct {
		name     string
		policy   Policy
		prompter Prompter
		kept     bool
		want     error // the error of Dial
		words    []string
	}{
		{"strict", Strict, &script{yes: true}, false, ErrHostKey, []string{"is not known", fingerprint, "StrictHostKeyChecking yes"}},
		{"nobody to ask", Ask, nil, false, ErrBatch, []string{fingerprint, "nobody to ask"}},
		{"no", Ask, &script{}, false, ErrHostKey, []string{"not accepted", fingerprint}},
		{"yes", Ask, &script{yes: true}, true, nil, nil},
		{"accept-new", AcceptNew, nil, true, nil, nil},
		{"accept", Accept, nil, true, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dest := s.stranger(t)
			dest.Policy = test.policy
			d := &Dialer{Prompter: test.prompter}
			if test.want != nil {
				err := dialError(t, d, dest, test.want, test.words...)
				if !errors.Is(err, ErrHostKey) {
					t.Errorf("%v is no ErrHostKey", err)
				}
			} else {
				dialOK(t, d, dest)
			}
			var k known
			if err := k.read(dest.UserKnownHostsFiles, dest.name()); err != nil {
				t.Fatal(err)
			}
			if kept := has(k.keys, key) != nil; kept != test.kept {
				t.Errorf("kept: %v", kept)
			}
			if p, ok := test.prompter.(*script); ok && test.policy == Ask {
				if asked := p.log(); len(asked) != 1 || !strings.Contains(asked[0], fingerprint) || !strings.Contains(asked[0], dest.name()) {
					t.Errorf("asked %q", asked)
				}
			}
			if test.kept {
				dest.Policy = Strict
				dialOK(t, &Dialer{}, dest)
			}
		})
	}
}

func TestHashedHost(t *testing.T) {
	s := startServer(t, openServer())
	dest := s.stranger(t)
	dest.Policy, dest.HashKnownHosts = AcceptNew, true
	dialOK(t, &Dialer{}, dest)
	text, err := os.ReadFile(dest.UserKnownHostsFiles[0])
	if err != nil || !strings.HasPrefix(string(text), "|1|") {
		t.Errorf("got %q, %v", text, err)
	}
	dest.Policy = Strict
	dialOK(t, &Dialer{}, dest)
}

// If many connections meet an unknown host at once, the user is asked once.
func TestUnknownHostAtOnce(t *testing.T) {
	s := startServer(t, openServer())
	dest := s.stranger(t)
	dest.Policy = Ask
	p := &script{yes: true}
	d := &Dialer{Prompter: p}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			c, err := d.Dial(withTimeout(t), dest)
			if err != nil {
				t.Error(err)
				return
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if asked := p.log(); len(asked) != 1 {
		t.Errorf("asked %d times", len(asked))
	}
}

func TestChangedHost(t *testing.T) {
	file, user := writeKey(t, "ed25519", "")
	config := takes(user.PublicKey())
	var password atomic.Bool
	config.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
		password.Store(true)
		return nil, nil
	}
	s := startServer(t, config)
	other := newKey(t, "ed25519").PublicKey()
	dest := s.stranger(t)
	known := dest.UserKnownHostsFiles[0]
	knows(t, &dest, "# mine", line(dest.name(), other))

	for _, policy := range []Policy{Strict, Ask, AcceptNew} {
		dest.Policy = policy
		err := dialError(t, &Dialer{Prompter: &script{yes: true}}, dest, ErrHostKey, "HAS CHANGED", known+":2 knows ssh-ed25519 "+ssh.FingerprintSHA256(other),
			ssh.FingerprintSHA256(s.keys[0].PublicKey()), "ssh-keygen -R '"+dest.name()+"' -f '"+known+"'")
		if e, ok := errors.AsType[*HostKeyError](err); !ok || e.Fault != Changed || len(e.Known) != 1 || e.Known[0].Line != 2 {
			t.Errorf("got %+v", e)
		}
	}

	// With checks off, the connection continues but sends no password.
	dest.Policy = Accept
	var said []string
	d := &Dialer{Prompter: &script{passwords: []string{"secret"}}, Notify: func(s string) { said = append(said, s) }}
	dialFails(t, d, dest, ErrAuth, "password is left out", "host key is not the one that is known")
	if password.Load() || len(said) != 1 || !strings.Contains(said[0], "HAS CHANGED") {
		t.Errorf("password sent: %v; said %q", password.Load(), said)
	}
	dest.IdentityFiles = []string{file}
	dialOK(t, d, dest)
}

// A key of another type does not bypass the known one.
func TestOtherKindOfKey(t *testing.T) {
	s := startServer(t, openServer())
	dest := s.stranger(t)
	knows(t, &dest, line(dest.name(), newKey(t, "rsa").PublicKey()))
	for _, policy := range []Policy{Strict, AcceptNew} {
		dest.Policy = policy
		dialFails(t, &Dialer{}, dest, ErrHostKey, "HAS CHANGED", "knows ssh-rsa")
	}
	dest.Policy = Ask
	p := &script{}
	dialFails(t, &Dialer{Prompter: p}, dest, ErrHostKey)
	if asked := p.log(); len(asked) != 1 || !strings.Contains(asked[0], "Another one is known") {
		t.Errorf("asked %q", asked)
	}
	p.yes = true
	dialOK(t, &Dialer{Prompter: p}, dest)
}

// The client requests the known key, whichever key the server prefers.
func TestOrderOfKinds(t *testing.T) {
	for _, kind := range []string{"ed25519", "ecdsa", "rsa"} {
		keys := []ssh.Signer{newKey(t, "ed25519"), newKey(t, "ecdsa"), newKey(t, "rsa")}
		s := startServer(t, openServer(), keys...)
		dest := s.stranger(t)
		for _, k := range keys {
			if strings.Contains(k.PublicKey().Type(), kind) {
				knows(t, &dest, line(dest.name(), k.PublicKey()))
			}
		}
		c := dialOK(t, &Dialer{}, dest)
		if got := keyType(algorithmsOf(c).HostKey); !strings.Contains(got, kind) {
			t.Errorf("%s is known, and %s was used", kind, got)
		}
		dest.FixedHostKeyOrder, dest.HostKeyAlgorithms = true, []string{ssh.KeyAlgoECDSA256, ssh.KeyAlgoED25519}
		if kind != "ecdsa" {
			dialFails(t, &Dialer{}, dest, ErrHostKey)
		}
	}
}

// Known_hosts may list a host under any of these names.
func TestNamesOfHost(t *testing.T) {
	s := startServer(t, openServer())
	key := s.keys[0].PublicKey()
	dest := s.stranger(t)
	tests := []struct {
		name, line string
		change     func(*Destination)
		ok         bool
	}{
		{"name and port", line(dest.name(), key), nil, true},
		{"name alone", line("127.0.0.1", key), nil, true},
		{"name alone, another key", line("127.0.0.1", newKey(t, "ed25519").PublicKey()), nil, false},
		{"other port", line("[127.0.0.1]:1", key), nil, false},
		{"alias", line("box", key), func(d *Destination) { d.HostKeyAlias = "box" }, true},
		{"alias and not name", line(dest.name(), key), func(d *Destination) { d.HostKeyAlias = "box" }, false},
		{"global file", "", func(d *Destination) {
			d.GlobalKnownHostsFiles = []string{writeFile(t, "global", line(d.name(), key)+"\n")}
		}, true},
		{"this machine", "", func(d *Destination) { d.TrustLoopback = true }, true},
		{"this machine by alias", "", func(d *Destination) { d.TrustLoopback, d.HostKeyAlias = true, "box" }, false},
		{"unreadable", "", func(d *Destination) { d.UserKnownHostsFiles = []string{t.TempDir()} }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dest := s.stranger(t)
			if test.line != "" {
				knows(t, &dest, test.line)
			}
			if test.change != nil {
				test.change(&dest)
			}
			if test.ok {
				dialOK(t, &Dialer{}, dest)
			} else {
				dialFails(t, &Dialer{}, dest, ErrHostKey)
			}
		})
	}
}

func TestRevokedHost(t *testing.T) {
	s := startServer(t, openServer())
	key := s.keys[0].PublicKey()
	for _, policy := range []Policy{Strict, Accept} {
		dest := s.stranger(t)
		dest.Policy = policy
		knows(t, &dest, line(dest.name(), key), "@revoked "+line("*", key))
		dialFails(t, &Dialer{}, dest, ErrHostKey, "is revoked", dest.UserKnownHostsFiles[0]+":2")

		// A revoked key is refused, whatever host the line names.
		knows(t, &dest, line(dest.name(), key), "@revoked "+line("elsewhere", key))
		dialFails(t, &Dialer{}, dest, ErrHostKey, "is revoked")

		knows(t, &dest, line(dest.name(), key))
		dest.RevokedHostKeys = writeFile(t, "revoked", string(ssh.MarshalAuthorizedKey(key)))
		dialFails(t, &Dialer{}, dest, ErrHostKey, "is revoked", dest.RevokedHostKeys+":1")
		dest.RevokedHostKeys += "-missing"
		dialFails(t, &Dialer{}, dest, ErrHostKey, "revoked host keys")
	}
}

// A key is refused however many revoked keys come before it, and however long its line is.
func TestRevokedHostFarDown(t *testing.T) {
	s := startServer(t, openServer())
	key, other := s.keys[0].PublicKey(), newKey(t, "ed25519").PublicKey()
	many := strings.Repeat("@revoked "+line("*", other)+"\n", 3000)
	long := strings.Repeat("other.example,", 10_000) + "x"
	for name, revoked := range map[string]string{
		"many":      many + "@revoked " + line("*", key),
		"long":      "@revoked " + line(long, key),
		"very long": "@revoked " + line(strings.Repeat(long+",", 10)+"x", key),
	} {
		dest := s.stranger(t)
		dest.Policy = Accept
		knows(t, &dest, line(dest.name(), key), revoked)
		want := "is revoked"
		if name == "very long" {
			want = "more than"
		}
		dialFails(t, &Dialer{}, dest, ErrHostKey, want)
	}
}

func TestHostCertificate(t *testing.T) {
	authority, stranger, plain := newKey(t, "ecdsa"), newKey(t, "ecdsa"), newKey(t, "ed25519")
	old := func(c *ssh.Certificate) {
		c.ValidPrincipals, c.ValidBefore = []string{"127.0.0.1"}, uint64(time.Now().Add(-time.Hour).Unix())
	}
	principals := func(p ...string) func(*ssh.Certificate) { return func(c *ssh.Certificate) { c.ValidPrincipals = p } }
	ca := func(hosts string) string { return "@cert-authority " + line(hosts, authority.PublicKey()) }
	revoked := func(k ssh.Signer) string { return "@revoked " + line("*", k.PublicKey()) }
	tests := []struct {
		name   string
		by     ssh.Signer
		kind   uint32
		change func(*ssh.Certificate)
		lines  []string
		want   string // part of the error; empty for none
	}{
		{"good", authority, ssh.HostCert, principals("127.0.0.1"), []string{ca("*")}, ""},
		{"by port", authority, ssh.HostCert, principals("127.0.0.1"), []string{ca("[127.0.0.1]:*")}, ""},
		{"by host", authority, ssh.HostCert, principals("127.0.0.1"), []string{ca("127.0.0.1")}, ""},
		{"no host", authority, ssh.HostCert, nil, []string{ca("*")}, "names no host"},
		{"no host, known key", authority, ssh.HostCert, nil, []string{ca("*"), line("*", plain.PublicKey())}, ""},
		{"wildcard", authority, ssh.HostCert, principals("x", "127.*"), []string{ca("*")}, ""},
		{"another host", authority, ssh.HostCert, principals("127.0.0.2"), []string{ca("*")}, "principal"},
		{"authority of others", authority, ssh.HostCert, nil, []string{ca("*.example.org")}, "is not known"},
		{"no authority", authority, ssh.HostCert, nil, []string{""}, "no authority known"},
		{"another authority", stranger, ssh.HostCert, nil, []string{ca("*")}, "no authority known"},
		{"expired", authority, ssh.HostCert, old, []string{ca("*")}, "expired"},
		{"not yet", authority, ssh.HostCert, func(c *ssh.Certificate) {
			c.ValidPrincipals, c.ValidAfter = []string{"127.0.0.1"}, uint64(time.Now().Add(time.Hour).Unix())
		}, []string{ca("*")}, "not yet valid"},
		{"of a user", authority, ssh.UserCert, nil, []string{ca("*")}, "not one of a host"},
		{"critical option", authority, ssh.HostCert, func(c *ssh.Certificate) {
			c.ValidPrincipals, c.CriticalOptions = []string{"127.0.0.1"}, map[string]string{"x": ""}
		}, []string{ca("*")}, "critical option"},
		{"revoked authority", authority, ssh.HostCert, nil, []string{ca("*"), revoked(authority)}, "is revoked"},
		{"revoked key", authority, ssh.HostCert, nil, []string{ca("*"), revoked(plain)}, "is revoked"},
		{"expired, known key", authority, ssh.HostCert, old, []string{ca("*"), line("*", plain.PublicKey())}, ""},
		{"no authority, known key", stranger, ssh.HostCert, nil, []string{line("*", plain.PublicKey())}, ""},
		{"no authority, other key", stranger, ssh.HostCert, nil, []string{line("*", newKey(t, "ed25519").PublicKey())}, "HAS CHANGED"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cert := certify(t, plain.PublicKey(), test.by, test.kind, test.change)
			signer, err := ssh.NewCertSigner(cert, plain)
			if err != nil {
				t.Fatal(err)
			}
			s := startServer(t, openServer(), signer)
			dest := s.stranger(t)
			knows(t, &dest, test.lines...)
			if test.want == "" {
				dialOK(t, &Dialer{}, dest)
			} else {
				dialFails(t, &Dialer{}, dest, ErrHostKey, test.want)
			}
		})
	}
}

// Certificates need algorithms as strong as those of host keys.
func TestHostCertificateAlgorithms(t *testing.T) {
	weak, err := ssh.NewSignerWithAlgorithms(newKey(t, "rsa").(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSA})
	if err != nil {
		t.Fatal(err)
	}
	plain := newKey(t, "ed25519")
	signer, err := ssh.NewCertSigner(certify(t, plain.PublicKey(), weak, ssh.HostCert, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"127.0.0.1"} }), plain)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, openServer(), signer)
	dest := s.stranger(t)
	knows(t, &dest, "@cert-authority "+line("*", weak.PublicKey()))
	dialFails(t, &Dialer{}, dest, ErrHostKey, "signed with ssh-rsa, which is not allowed")
	dest.CASignatureAlgorithms = []string{ssh.KeyAlgoRSA}
	dialOK(t, &Dialer{}, dest)
}

func TestShortRSA(t *testing.T) {
	s := startServer(t, openServer(), newKey(t, "rsa"))
	dest := s.dest(t)
	dialOK(t, &Dialer{}, dest)
	dest.RequiredRSASize = 3072
	err := dialError(t, &Dialer{}, dest, ErrHostKey, "2048 bits", "RequiredRSASize")
	if e, ok := errors.AsType[*HostKeyError](err); !ok || e.Fault != Weak {
		t.Errorf("got %+v", e)
	}
}

// A known_hosts file that cannot be written does not prevent a connection.
func TestKeepFails(t *testing.T) {
	s := startServer(t, openServer())
	dest := s.stranger(t)
	dest.Policy = AcceptNew
	dest.UserKnownHostsFiles = []string{filepath.Join(t.TempDir(), "no", "such", "known_hosts")}
	var said []string
	dialOK(t, &Dialer{Notify: func(s string) { said = append(said, s) }}, dest)
	if len(said) != 1 || !strings.Contains(said[0], "could not be added to the known hosts") {
		t.Errorf("said %q", said)
	}
	dest.UserKnownHostsFiles = nil
	dialOK(t, &Dialer{}, dest)
}
