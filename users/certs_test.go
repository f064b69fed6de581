package users_test

import (
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
	"golang.org/x/crypto/ssh"
)

// certify makes a certificate for a key, valid for alice unless changed, and returns a signer that
// logs in with it.
func certify(t testing.TB, ca, s ssh.Signer, change func(*ssh.Certificate)) ssh.Signer {
	t.Helper()
	c := &ssh.Certificate{
		Key: s.PublicKey(), CertType: ssh.UserCert, KeyId: "alice@work", Serial: 42,
		ValidPrincipals: []string{"alice"},
		ValidAfter:      uint64(now.Add(-time.Hour).Unix()),
		ValidBefore:     uint64(now.Add(time.Hour).Unix()),
	}
	if change != nil {
		change(c)
	}
	if err := c.SignCert(rand.Reader, ca); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewCertSigner(c, s)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func options(o map[string]string) func(*ssh.Certificate) {
	return func(c *ssh.Certificate) { c.CriticalOptions = o }
}

func TestCertificates(t *testing.T) {
	ca, mine := newSigner(t), newSigner(t)
	sha1CA, err := ssh.NewSignerWithAlgorithms(signerOf(t, rsaKey()).(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSA})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		line    string // options of the authority's line
		ca      ssh.Signer
		change  func(*ssh.Certificate)
		want    string // the reason of the refusal, or "" for a login
		access  users.Access
		dir     string // the directory, if not /
		nowhere bool   // no line has the key of an authority
	}{
		{name: "plain"},
		{name: "forever", change: func(c *ssh.Certificate) { c.ValidAfter, c.ValidBefore = 0, ssh.CertTimeInfinity }},
		{name: "several principals", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"root", "alice"} }},
		{name: "another's", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"bob"} }, want: "principals"},
		{name: "nobody's", change: func(c *ssh.Certificate) { c.ValidPrincipals = nil }, want: "principals"},
		{name: "a list in one name", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"alice,bob"} }, want: "principals"},
		{name: "wildcard", change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"*"} }, want: "principals"},
		{name: "expired", change: func(c *ssh.Certificate) { c.ValidBefore = uint64(now.Unix()) }, want: "expired"},
		{name: "not yet valid", change: func(c *ssh.Certificate) { c.ValidAfter = uint64(now.Unix()) + 1 }, want: "not yet valid"},
		{name: "valid until far beyond the end of time", change: func(c *ssh.Certificate) { c.ValidBefore = 1 << 63 }, want: "expired"},
		{name: "a host's", change: func(c *ssh.Certificate) { c.CertType = ssh.HostCert }, want: "not one for users"},
		{name: "of another authority", ca: newSigner(t), want: "no known authority signed"},
		{name: "of nobody", nowhere: true, want: "no known authority signed"},
		{name: "signed with SHA-1", ca: sha1CA, want: "signed with ssh-rsa"},

		{name: "unknown critical option", change: options(map[string]string{"moon-phase": "full"}), want: `unsupported critical option "moon-phase"`},
		{name: "unknown extension", change: func(c *ssh.Certificate) { c.Extensions = map[string]string{"permit-pty": "", "x@y": "z"} }},
		{name: "from here", change: options(map[string]string{"source-address": "10.0.0.0/8,192.0.2.1"})},
		{name: "from elsewhere", change: options(map[string]string{"source-address": "10.0.0.0/8,192.0.2.2"}), want: "source-address"},
		{name: "from nowhere", change: options(map[string]string{"source-address": ""}), want: "source-address"},
		{name: "from nonsense", change: options(map[string]string{"source-address": "192.0.2.1,*"}), want: "source-address"},
		{name: "forced to read", change: options(map[string]string{"force-command": "internal-sftp -R -d /pub"}), access: users.ReadOnly, dir: "/pub"},
		{name: "forced to something else", change: options(map[string]string{"force-command": "/bin/date"}), want: `"/bin/date" is forced`},
		{name: "forced to nothing", change: options(map[string]string{"force-command": ""}), want: "is forced"},
		{name: "with a PIN, which a key without needs not", change: options(map[string]string{"verify-required": ""})},

		{name: "line: principals", line: `principals="staff,carol"`, change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"staff"} }},
		{name: "line: principals in place of the name", line: `principals="staff"`, want: "principals"},
		{name: "line: principals and a list in one name", line: `principals="staff,carol"`, change: func(c *ssh.Certificate) { c.ValidPrincipals = []string{"staff,carol"} }, want: "principals"},
		{name: "line: from here", line: `from="192.0.2.*"`},
		{name: "line: from elsewhere", line: `from="10.*"`, want: "from="},
		{name: "line: over", line: `expiry-time="20261122115959Z"`, want: "expiry-time"},
		{name: "line: not over", line: `expiry-time="20261122120001Z"`},
		{name: "line: forced", line: `command="internal-sftp -R"`, access: users.ReadOnly},
		{name: "both forced alike", line: `command="internal-sftp -R"`, change: options(map[string]string{"force-command": "internal-sftp -R"}), access: users.ReadOnly},
		{name: "both forced, but not alike", line: `command="internal-sftp -R"`, change: options(map[string]string{"force-command": "internal-sftp"}), want: "another command"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			authority := "cert-authority"
			if test.line != "" {
				authority += "," + test.line
			}
			u := users.User{Name: "alice"}
			if !test.nowhere {
				u.Keys = []users.Key{key(t, authority, ca.PublicKey())}
				if test.ca == sha1CA {
					u.Keys = append(u.Keys, key(t, authority, sha1CA.PublicKey()))
				}
			}
			w := newWorld(t, u)
			signedBy := test.ca
			if signedBy == nil {
				signedBy = ca
			}
			l, err := w.withKeys("alice", certify(t, signedBy, mine, test.change))
			w.want(l, err, test.want)
			e := w.last()
			if e.Key != ssh.FingerprintSHA256(mine.PublicKey()) || e.Authority != ssh.FingerprintSHA256(signedBy.PublicKey()) || e.KeyID != "alice@work" || e.Serial != 42 {
				t.Errorf("event %+v", e)
			}
			if err != nil {
				return
			}
			dir := "/"
			if test.dir != "" {
				dir = test.dir
			}
			if l.Access != test.access || l.Dir != dir || l.KeyID != "alice@work" || l.Serial != 42 || l.Authority != e.Authority {
				t.Errorf("login %+v", l)
			}
		})
	}
}

// The key of an authority cannot be used to log in, and the key of a user does not count as an
// authority for certificates.
func TestKeysAreNoAuthorities(t *testing.T) {
	ca, mine := newSigner(t), newSigner(t)
	w := newWorld(t,
		users.User{Name: "alice", Keys: []users.Key{key(t, "cert-authority", ca.PublicKey())}},
		users.User{Name: "bob", Keys: []users.Key{key(t, "", ca.PublicKey()), key(t, "", mine.PublicKey())}},
		users.User{Name: "nobody"},
	)
	l, err := w.withKeys("alice", ca)
	w.want(l, err, "does not belong to the user")
	l, err = w.withKeys("bob", certify(t, ca, mine, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"bob"} }))
	w.want(l, err, "no known authority signed")
	l, err = w.withKeys("nobody", certify(t, ca, mine, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"nobody"} }))
	w.want(l, err, "no known authority signed")
	l, err = w.withKeys("carol", certify(t, ca, mine, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"carol"} }))
	w.want(l, err, "no such user")
}

// The signature is verified: a certificate with the right authority that was changed after it was
// signed is refused.
func TestForgedCertificate(t *testing.T) {
	ca, mine := newSigner(t), newSigner(t)
	w := newWorld(t, users.User{Name: "alice", Keys: []users.Key{key(t, "cert-authority", ca.PublicKey())}})
	s := certify(t, ca, mine, func(c *ssh.Certificate) { c.ValidPrincipals = []string{"bob"} })
	s.PublicKey().(*ssh.Certificate).ValidPrincipals = []string{"alice"}
	l, err := w.withKeys("alice", s)
	w.want(l, err, "signature does not verify")
}

// The authorities of the users file are trusted for every user in it. The file's other statements
// apply to them.
func TestTrustedAuthorities(t *testing.T) {
	ca, other, mine := newSigner(t), newSigner(t), newSigner(t)
	dir := t.TempDir()
	write(t, dir, "ca.pub", "# of the office\n"+line(`principals="staff",command="internal-sftp -R"`, other.PublicKey())+"\n")
	d := open(t, write(t, dir, "users", "authority "+line("", ca.PublicKey())+"\nauthorities ca.pub\nroot srv/%u\nuser alice\nuser bob\n disabled\n"))
	w := &world{t: t, d: d}
	as := func(ca ssh.Signer, principal string) ssh.Signer {
		return certify(t, ca, mine, func(c *ssh.Certificate) { c.ValidPrincipals = []string{principal} })
	}
	l, err := w.withKeys("alice", as(ca, "alice"))
	w.want(l, err, "")
	l, err = w.withKeys("alice", as(ca, "bob"))
	w.want(l, err, "users, line 1: none of the certificate's principals")
	l, err = w.withKeys("bob", as(ca, "bob"))
	w.want(l, err, "disabled")
	l, err = w.withKeys("carol", as(ca, "carol"))
	w.want(l, err, "no such user")
	l, err = w.withKeys("alice", as(other, "staff"))
	w.want(l, err, "")
	if l.Access != users.ReadOnly || l.User.Root != filepath.FromSlash("srv/alice") {
		t.Errorf("got %+v", l)
	}
	l, err = w.withKeys("alice", as(other, "alice"))
	w.want(l, err, "ca.pub, line 2: none")
}

func TestRevokedKeys(t *testing.T) {
	ca, mine, other := newSigner(t), newSigner(t), newSigner(t)
	keys := "key " + line("", mine.PublicKey()) + "\nkey cert-authority " + line("", ca.PublicKey()) + "\nkey " + line("", other.PublicKey()) + "\n"
	cert := certify(t, ca, mine, nil)
	tests := []struct {
		name, list      string
		key, cert, free string // the reasons to refuse the key, its certificate, and another key
	}{
		{"nothing", "# empty\n\n", "", "", ""},
		{"a fingerprint", ssh.FingerprintSHA256(mine.PublicKey()) + " stolen 2026-11-01\n", "the key is revoked", "is revoked", ""},
		{"a key", line("", mine.PublicKey()) + " alice\r\n", "the key is revoked", "is revoked", ""},
		{"an authority", line("", ca.PublicKey()), "", "is revoked", ""},
		{"a certificate", line("", cert.PublicKey()), "the key is revoked", "is revoked", ""},
		{"all", ssh.FingerprintSHA256(mine.PublicKey()) + "\n" + ssh.FingerprintSHA256(other.PublicKey()), "revoked", "revoked", "revoked"},
		{"one that nobody has", line("", fakeDSA(t)) + "\n" + line("", fakeRSA(t, 1024)), "", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "revoked", test.list)
			w := &world{t: t, d: open(t, write(t, dir, "users", "revoked revoked\nuser alice\n"+keys))}
			l, err := w.withKeys("alice", mine)
			w.want(l, err, test.key)
			l, err = w.withKeys("alice", cert)
			w.want(l, err, test.cert)
			l, err = w.withKeys("alice", other)
			w.want(l, err, test.free)
		})
	}
	for list, want := range map[string]string{
		"SSHKRL\n\x00\x00":               "binary format",
		"# x\nSHA256:short":              "line 2: the fingerprint is not whole",
		"MD5:00:11":                      "line 1",
		"ssh-ed25519 AAAA":               "line 1",
		"alice@example.org":              "line 1",
		line("restrict", ca.PublicKey()): "line 1",
	} {
		dir := t.TempDir()
		write(t, dir, "revoked", list)
		_, err := users.Open(write(t, dir, "users", "\nrevoked revoked\nuser alice\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "users, line 2") {
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
	if _, err := users.Open(write(t, t.TempDir(), "users", "revoked missing\nuser alice\n")); err == nil {
		t.Error("a list that is missing revokes nothing")
	}
}

// Certificates and keys made by ssh-keygen work. Its certificates are valid at the current time.
func TestKeygen(t *testing.T) {
	keygen, err := exec.LookPath("ssh-keygen")
	if err != nil {
		t.Skip("there is no ssh-keygen")
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), keygen, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %q: %v\n%s", args, err, out)
		}
	}
	public := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	signer := func(name string) ssh.Signer {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		s, err := ssh.ParsePrivateKey(b)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	run("-q", "-t", "ed25519", "-N", "", "-f", "ca", "-C", "our authority")
	var file strings.Builder
	file.WriteString("authority " + public("ca") + "\nuser alice\n")
	kinds := map[string][]string{
		"ed25519": {"-t", "ed25519"}, "p256": {"-t", "ecdsa", "-b", "256"}, "p384": {"-t", "ecdsa", "-b", "384"},
		"p521": {"-t", "ecdsa", "-b", "521"}, "rsa": {"-t", "rsa", "-b", "2048"},
	}
	for name, args := range kinds {
		run(append(args, "-q", "-N", "", "-f", name, "-C", name+" of alice")...)
		file.WriteString("  key " + public(name) + "\n")
	}
	w := &world{t: t, d: open(t, write(t, dir, "users", file.String())), options: users.Options{Now: time.Now}}
	for name := range kinds {
		l, err := w.withKeys("alice", signer(name))
		w.want(l, err, "")
	}

	certs := []struct {
		name   string
		args   []string
		want   string
		access users.Access
	}{
		{"plain", []string{"-n", "alice", "-V", "-5m:+1h"}, "", users.Full},
		{"read-only", []string{"-n", "bob,alice", "-O", "force-command=internal-sftp -R"}, "", users.ReadOnly},
		{"here", []string{"-n", "alice", "-O", "source-address=192.0.2.0/24"}, "", users.Full},
		{"elsewhere", []string{"-n", "alice", "-O", "source-address=10.0.0.0/8,2001:db8::/32"}, "source-address", 0},
		{"shell", []string{"-n", "alice", "-O", "force-command=/bin/sh"}, "/bin/sh", 0},
		{"restricted", []string{"-n", "alice", "-O", "clear"}, "", users.Full},
		{"critical", []string{"-n", "alice", "-O", "critical:x@example.org=1"}, "critical option", 0},
		{"extension", []string{"-n", "alice", "-O", "extension:x@example.org=1"}, "", users.Full},
		{"late", []string{"-n", "alice", "-V", "-2h:-1h"}, "expired", 0},
		{"early", []string{"-n", "alice", "-V", "+1h:+2h"}, "not yet valid", 0},
		{"another", []string{"-n", "bob"}, "principals", 0},
		{"for all", nil, "principals", 0},
		{"host", []string{"-h", "-n", "alice"}, "not one for users", 0},
	}
	for _, test := range certs {
		t.Run(test.name, func(t *testing.T) {
			for _, kind := range []string{"ed25519", "rsa"} {
				run(append([]string{"-q", "-s", "ca", "-I", "id of " + kind, "-z", "7"}, append(test.args, kind+".pub")...)...)
				k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public(kind + "-cert")))
				if err != nil {
					t.Fatal(err)
				}
				s, err := ssh.NewCertSigner(k.(*ssh.Certificate), signer(kind))
				if err != nil {
					t.Fatal(err)
				}
				l, err := w.withKeys("alice", s)
				w.want(l, err, test.want)
				if err == nil && (l.Access != test.access || l.Serial != 7) {
					t.Errorf("login %+v", l)
				}
			}
		})
	}

	// Host keys made by ssh-keygen, and their certificates, work too.
	hostDir := filepath.Join(dir, "host")
	if err := os.Mkdir(hostDir, 0o700); err != nil {
		t.Fatal(err)
	}
	run("-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", "host/ssh_host_rsa_key")
	run("-q", "-t", "ecdsa", "-N", "", "-f", "host/ssh_host_ecdsa_key")
	run("-q", "-s", "ca", "-I", "host", "-h", "-n", "files.example.org", "host/ssh_host_ecdsa_key.pub")
	keys, err := users.HostKeys(hostDir)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, k := range keys {
		types = append(types, k.Signer.PublicKey().Type())
		if out, err := exec.CommandContext(t.Context(), keygen, "-l", "-f", strings.TrimSuffix(k.File, "-cert.pub")).CombinedOutput(); err != nil || !strings.Contains(string(out), k.Fingerprint()) {
			t.Errorf("%s: %s, and ssh-keygen says %s (%v)", k.File, k.Fingerprint(), out, err)
		}
	}
	if got, want := strings.Join(types, " "), "ecdsa-sha2-nistp256 ecdsa-sha2-nistp256-cert-v01@openssh.com ssh-rsa"; got != want {
		t.Errorf("host keys %s, want %s", got, want)
	}
	checker := ssh.CertChecker{IsHostAuthority: func(k ssh.PublicKey, _ string) bool {
		return string(k.Marshal()) == string(signer("ca").PublicKey().Marshal())
	}}
	if err := checker.CheckHostKey("files.example.org:22", &net.TCPAddr{}, keys[1].Signer.PublicKey()); err != nil {
		t.Error(err)
	}
	run("-q", "-t", "ed25519", "-N", "secret", "-f", "host/ssh_host_ed25519_key")
	if _, err := users.HostKeys(hostDir); err == nil || !strings.Contains(err.Error(), "passphrase") {
		t.Errorf("a host key with a passphrase: %v", err)
	}
}
