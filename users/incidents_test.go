package users_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/ssh"
)

// Each of these tests is about a vulnerability of other servers.

// offerThenUse offers keys for which the client cannot sign, one after the other, and then logs in
// with the last key.
func (w *world) offerThenUse(user string, signers ...ssh.Signer) (*users.Login, error) {
	return w.handshake(user, func(c *ssh.ClientConfig) {
		c.AuthCallback = func(*ssh.ClientAuthContext) (ssh.AuthMethod, error) {
			if len(signers) == 0 {
				return nil, errors.New("no more keys")
			}
			s := signers[0]
			signers = signers[1:]
			return ssh.PublicKeys(s), nil
		}
	})
}

// CVE-2024-45337: a key that was only offered must have no effect.
func TestOfferedKeyDecidesNothing(t *testing.T) {
	boss, clerk := newSigner(t), newSigner(t)
	all := []users.User{{Name: "alice", Keys: []users.Key{
		key(t, "", boss.PublicKey()),
		key(t, `command="internal-sftp -R -d /clerks"`, clerk.PublicKey()),
	}}, {Name: "boss", Keys: []users.Key{key(t, "", boss.PublicKey())}}}
	w := newWorld(t, all...)
	asked := false
	l, err := w.offerThenUse("alice", claimant{boss.PublicKey(), &asked}, clerk)
	w.want(l, err, "")
	if !asked {
		t.Error("the first key was not even accepted as an offer, so this shows nothing")
	}
	if l.Access != users.ReadOnly || l.Dir != "/clerks" || l.Key != ssh.FingerprintSHA256(clerk.PublicKey()) {
		t.Errorf("logged in as %+v", l)
	}
	if len(w.events) != 1 || w.events[0].Key != l.Key {
		t.Errorf("events %+v", w.events)
	}
	// The other key is offered last, after the one that is used.
	l, err = w.offerThenUse("alice", claimant{clerk.PublicKey(), nil}, claimant{boss.PublicKey(), nil}, claimant{clerk.PublicKey(), nil}, clerk)
	w.want(l, err, "")
	if l.Access != users.ReadOnly {
		t.Errorf("logged in as %+v", l)
	}
	// The client has only the wrong key.
	l, err = w.offerThenUse("boss", claimant{boss.PublicKey(), nil}, clerk)
	w.want(l, err, "does not belong to the user")
}

// A reload between the offer and the signature takes effect.
func TestRevokedWhileLoggingIn(t *testing.T) {
	mine := newSigner(t)
	dir := t.TempDir()
	file := write(t, dir, "users", "user alice\nkey "+line("", mine.PublicKey())+"\n")
	w := &world{t: t, d: open(t, file)}
	l, err := w.withKeys("alice", reloader{mine, func() {
		write(t, dir, "users", "user alice\n")
		if changed, err := w.d.Reload(); !changed || err != nil {
			t.Errorf("reload: %v, %v", changed, err)
		}
	}})
	w.want(l, err, "does not belong to the user")
	if w.last().Offered {
		t.Error("the key was refused when it was offered, so this shows nothing")
	}
}

// The same holds if the reload requires a touch, and the signature was made without one.
func TestTouchWhileLoggingIn(t *testing.T) {
	mine := newSecurityKey(t, 0)
	dir := t.TempDir()
	file := write(t, dir, "users", "user alice\nkey "+line("no-touch-required", mine.PublicKey())+"\n")
	w := &world{t: t, d: open(t, file)}
	l, err := w.withKeys("alice", mine)
	w.want(l, err, "")
	l, err = w.withKeys("alice", reloader{mine, func() {
		write(t, dir, "users", "user alice\nkey "+line("", mine.PublicKey())+"\n")
		if changed, err := w.d.Reload(); !changed || err != nil {
			t.Errorf("reload: %v, %v", changed, err)
		}
	}})
	w.want(l, err, "has to be touched")
}

// A reloader calls a function before it signs.
type reloader struct {
	ssh.Signer
	before func()
}

func (r reloader) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	r.before()
	return r.Signer.Sign(rand, data)
}

// CVE-2026-62325: an empty password does not count as a password, in any way of logging in.
func TestEmptyPasswords(t *testing.T) {
	mine := newSigner(t)
	w := newWorld(t,
		users.User{Name: "none"},
		users.User{Name: "zero", Password: users.Hash{}},
		users.User{Name: "some", Password: hash(t, "secret")},
		users.User{Name: "empty", Password: hash(t, "")}, // a hash made by another program
		users.User{Name: "both", Require: users.KeyAndPassword, Password: hash(t, ""), Keys: []users.Key{key(t, "", mine.PublicKey())}},
	)
	for _, user := range []string{"none", "zero", "some", "empty", "both", "nobody"} {
		l, err := w.withPassword(user, "")
		w.want(l, err, "empty")
		l, err = w.interactively(user, "")
		w.want(l, err, "empty")
		if _, err := w.d.Password(t.Context(), users.Attempt{Now: now}, user, nil); err == nil {
			t.Errorf("%s is let in without a password", user)
		}
		if _, err := w.handshake(user, func(*ssh.ClientConfig) {}); err == nil {
			t.Errorf("%s is let in by the method none", user)
		}
	}
	l, err := w.handshake("both", func(c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.PublicKeys(mine), ssh.Password("")} })
	w.want(l, err, "empty")
	for _, text := range []string{"user a\npassword\n", "user a\npassword \n", "user a\npassword \"\"\n", "user a\npassword x\n", "user a\npassword *\n", "user a\npassword !\n"} {
		if _, err := users.ParseText(text); err == nil {
			t.Errorf("%q is a users file", text)
		}
	}
	if _, err := users.HashPassword(nil); err == nil {
		t.Error("an empty password has a hash")
	}
	// Without users, and with a user who has no password, every way of logging in is closed.
	for _, d := range []*users.Directory{directory(t), directory(t, users.User{Name: "none"})} {
		w := &world{t: t, d: d}
		if _, err := w.withPassword("none", ""); err == nil {
			t.Error("let in where no user has a password")
		}
		if _, err := w.interactively("none", ""); err == nil {
			t.Error("let in where no user has a password")
		}
	}
}

// CVE-2026-39828: the restrictions of a certificate still apply after a second factor.
func TestSecondFactorKeepsRestrictions(t *testing.T) {
	ca, mine := newSigner(t), newSigner(t)
	w := newWorld(t, users.User{
		Name: "alice", Require: users.KeyAndPassword, Password: hash(t, "secret"),
		Keys: []users.Key{key(t, "cert-authority", ca.PublicKey())},
	})
	login := func(change func(*ssh.Certificate), method func(string) ssh.AuthMethod) (*users.Login, error) {
		return w.handshake("alice", func(c *ssh.ClientConfig) {
			c.Auth = []ssh.AuthMethod{ssh.PublicKeys(certify(t, ca, mine, change)), method("secret")}
		})
	}
	typed := func(s string) ssh.AuthMethod {
		return ssh.KeyboardInteractive(func(_, _ string, q []string, _ []bool) ([]string, error) { return slicesOf(s, len(q)), nil })
	}
	for _, method := range []func(string) ssh.AuthMethod{ssh.Password, typed} {
		l, err := login(options(map[string]string{"force-command": "internal-sftp -R -d /in"}), method)
		w.want(l, err, "")
		if l.Access != users.ReadOnly || l.Dir != "/in" || l.Serial != 42 || !strings.HasPrefix(l.Method, "publickey+") {
			t.Errorf("got %+v", l)
		}
		l, err = login(options(map[string]string{"force-command": "/bin/sh"}), method)
		w.want(l, err, "not enough") // the key is refused, and the password alone is not enough
	}
}

// CVE-2026-46595 and CVE-2026-56854: source-address applies in every way of logging in.
func TestSourceAddressEverywhere(t *testing.T) {
	ca, mine := newSigner(t), newSigner(t)
	keys := []users.Key{key(t, "cert-authority", ca.PublicKey())}
	w := newWorld(t,
		users.User{Name: "alice", Keys: keys},
		users.User{Name: "both", Keys: keys, Require: users.KeyAndPassword, Password: hash(t, "secret")},
	)
	for _, user := range []string{"alice", "both"} {
		cert := certify(t, ca, mine, func(c *ssh.Certificate) {
			c.ValidPrincipals = []string{user}
			c.CriticalOptions = map[string]string{"source-address": "192.0.2.0/24,2001:db8::/32"}
		})
		login := func() (*users.Login, error) {
			return w.handshake(user, func(c *ssh.ClientConfig) { c.Auth = []ssh.AuthMethod{ssh.PublicKeys(cert), ssh.Password("secret")} })
		}
		for peer, ok := range map[string]bool{"192.0.2.77": true, "2001:db8::7": true, "198.51.100.1": false, "2001:db9::1": false} {
			w.peer = &net.TCPAddr{IP: net.ParseIP(peer), Port: 1}
			if l, err := login(); (err == nil) != ok {
				t.Errorf("%s from %s: %+v, %v", user, peer, l, err)
			}
		}
		w.peer = &net.UnixAddr{Name: "@", Net: "unix"}
		if l, err := login(); err == nil {
			t.Errorf("%s from a place without an address: %+v", user, l)
		}
		w.peer = nil
	}
}

// CVE-2026-39829: keys that would only cost the server time are refused before it verifies anything
// with them. Keys that can be broken are refused, too.
func TestKeySizes(t *testing.T) {
	tests := []struct {
		k    ssh.PublicKey
		want string
	}{
		{fakeDSA(t), "type ssh-dss are not accepted"},
		{fakeRSA(t, 1024), "1024 bits"},
		{fakeRSA(t, users.MinRSABits-1), "2047 bits"},
		{fakeRSA(t, users.MinRSABits), ""},
		{fakeRSA(t, users.MaxRSABits), ""},
		{fakeRSA(t, users.MaxRSABits+1), "8193 bits"},
		{fakeRSA(t, 16384), "16384 bits"},
		{newSigner(t).PublicKey(), ""},
		{newSecurityKey(t, 0).public, ""},
	}
	ca := newSigner(t)
	w := newWorld(t, users.User{Name: "alice", Keys: []users.Key{key(t, "cert-authority", ca.PublicKey())}})
	for _, test := range tests {
		err := users.CheckKey(test.k)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.k.Type(), err, test.want)
		}
		if test.want == "" {
			continue
		}
		if _, err := users.ParseKey(line("", test.k)); err == nil {
			t.Errorf("%s can be listed", test.k.Type())
		}
		if test.k.Type() == "ssh-dss" {
			continue // x/crypto/ssh refuses it before it asks us
		}
		asked := false
		l, err := w.withKeys("alice", claimant{test.k, &asked})
		w.want(l, err, test.want)
		if asked {
			t.Errorf("a signature by a key of %s was asked for", test.want)
		}
		// Use it as the key of a certificate, and as its authority.
		s := certify(t, ca, claimant{test.k, nil}, nil)
		l, err = w.withKeys("alice", s)
		w.want(l, err, test.want)
		cert := *certify(t, ca, newSigner(t), nil).PublicKey().(*ssh.Certificate)
		cert.SignatureKey = test.k
		l, err = w.withKeys("alice", claimant{&cert, nil})
		w.want(l, err, test.want)
	}
	if _, err := ssh.ParsePublicKey(fakeRSA(t, 16385).Marshal()); err == nil {
		t.Error("x/crypto/ssh reads keys of any size")
	}
}

// Signatures with SHA-1 are refused for every key.
func TestSHA1Refused(t *testing.T) {
	weak, err := ssh.NewSignerWithAlgorithms(signerOf(t, rsaKey()).(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSA})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, users.User{Name: "alice", Keys: []users.Key{key(t, "", weak.PublicKey())}})
	if l, err := w.withKeys("alice", weak); err == nil {
		t.Errorf("logged in as %+v", l)
	}
	l, err := w.withKeys("alice", signerOf(t, rsaKey()))
	w.want(l, err, "")
}

// CVE-2026-39831: a security key must be touched, unless the line that lists it and, if there is a
// certificate, that certificate both allow otherwise.
func TestSecurityKeysAreTouched(t *testing.T) {
	ca := newSigner(t)
	waive := func(c *ssh.Certificate) { c.Extensions = map[string]string{"no-touch-required": ""} }
	const ok, badSignature = "", "!" // x/crypto/ssh ends the handshake, so we report no event
	tests := []struct {
		name, line string
		flags      byte
		certified  func(*ssh.Certificate) // nil: a plain key
		want       string
	}{
		{"touched", "", 1, nil, ok},
		{"not touched", "", 0, nil, badSignature},
		{"need not be", "no-touch-required", 0, nil, ok},
		{"must be after all", "no-touch-required,touch-required", 0, nil, badSignature},
		{"critical, which is no extension", "", 0, options(map[string]string{"no-touch-required": ""}), "critical option"},
		{"certificate, touched", "", 1, func(*ssh.Certificate) {}, ok},
		{"certificate, not touched", "", 0, func(*ssh.Certificate) {}, badSignature},
		{"certificate waives it, line does not", "", 0, waive, "line of its authority has not"},
		{"certificate waives it, line does not, touched", "", 1, waive, "line of its authority has not"},
		{"line waives it, certificate does not", "no-touch-required", 0, func(*ssh.Certificate) {}, badSignature},
		{"both waive it", "no-touch-required", 0, waive, ok},
		{"PIN", "verify-required", 5, nil, "verify-required"},
		{"no PIN after all", "verify-required,no-verify-required", 1, nil, ok},
		{"PIN by certificate", "", 5, options(map[string]string{"verify-required": ""}), "verify-required"},
		{"PIN by the authority's line", "verify-required", 5, func(*ssh.Certificate) {}, "verify-required"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var s ssh.Signer = newSecurityKey(t, test.flags)
			list := key(t, test.line, s.PublicKey())
			if test.certified != nil {
				list = key(t, strings.TrimSuffix("cert-authority,"+test.line, ","), ca.PublicKey())
				s = certify(t, ca, s, test.certified)
			}
			w := newWorld(t, users.User{Name: "alice", Keys: []users.Key{list}})
			l, err := w.withKeys("alice", s)
			if test.want == badSignature {
				if err == nil || len(w.events) > 0 {
					t.Errorf("logged in as %+v, %v; events %+v", l, err, w.events)
				}
				return
			}
			w.want(l, err, test.want)
		})
	}
	// As in OpenSSH, verify-required affects only security keys.
	mine := newSigner(t)
	w := newWorld(t, users.User{Name: "alice", Keys: []users.Key{key(t, "verify-required", mine.PublicKey())}})
	l, err := w.withKeys("alice", mine)
	w.want(l, err, "")
}

// CVE-2026-39835: without an authority, certificates of any kind are refused, with no other effect.
func TestNoAuthorities(t *testing.T) {
	ca, mine := newSigner(t), newSigner(t)
	for _, w := range []*world{newWorld(t), newWorld(t, users.User{Name: "alice"}), newWorld(t, users.User{Name: "alice", Keys: []users.Key{{}}})} {
		for _, kind := range []uint32{ssh.UserCert, ssh.HostCert, 0, 77} {
			if l, err := w.withKeys("alice", certify(t, ca, mine, func(c *ssh.Certificate) { c.CertType = kind })); err == nil {
				t.Errorf("logged in as %+v", l)
			}
		}
	}
}

// CVE-2026-30914 and others: names become parts of paths, so a name that could lead elsewhere is
// refused.
func TestNamesInPaths(t *testing.T) {
	bad := []string{
		"", ".", "..", "../x", "a/b", `a\b`, "a\x00", "a b", "a\n", "\x1b[31m", "-rf", ".ssh", "a..b", "a.", "%u", "~", "~root",
		"ä", "a:b", "a*", "$HOME", "{{.User}}", strings.Repeat("a", 65), "+x", "@x", "a\u202eb",
	}
	for _, name := range bad {
		if err := users.CheckName(name); err == nil {
			t.Errorf("%q is a name", name)
		}
		if _, err := users.New(users.User{Name: name}); err == nil {
			t.Errorf("%q is a user", name)
		}
		if _, err := users.ParseText("root x/%u\nuser " + name + "\n"); err == nil && !strings.Contains(name, "\n") {
			t.Errorf("%q is a user in a file", name)
		}
	}
	for _, name := range []string{"a", "alice", "Alice.B", "alice@example.org", "a+b", "a-b", "_x", "7", strings.Repeat("a", 64)} {
		if err := users.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, root := range []string{"/srv/../etc", "..", "../%u", "/srv/%h", "/srv/%", "a/../../b", "/srv/%u/..", "/srv\x00", "/srv\n"} {
		if _, err := users.New(users.User{Name: "alice", Root: root}); err == nil {
			t.Errorf("%q is a root", root)
		}
	}
	roots := map[string]string{"%u": "alice", "100%%/%u/": "100%/alice", "": "", "srv/..x": "srv/..x"}
	if runtime.GOOS != "windows" {
		roots["/srv/%u"] = "/srv/alice"
	}
	for root, want := range roots {
		d, err := users.New(users.User{Name: "alice", Root: root})
		if err != nil {
			t.Errorf("%q: %v", root, err)
			continue
		}
		if u, _ := d.User("alice"); u.Root != filepath.FromSlash(want) {
			t.Errorf("root %q comes to %q, want %q", root, u.Root, want)
		}
	}
}
