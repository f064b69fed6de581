package openssh

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// scan reads the entries for a name from a text.
func (k *known) scan(r io.Reader, file, name string) error {
	return scanKnown(r, file, func(line []byte, file string, n int) { k.line(line, file, n, name) })
}

// line returns a line of known_hosts.
func line(hosts string, key ssh.PublicKey) string {
	return hosts + " " + key.Type() + " " + base64.StdEncoding.EncodeToString(key.Marshal())
}

func TestKnownMatches(t *testing.T) {
	key := newKey(t, "ed25519").PublicKey()
	hashed, err := knownLineFor("Example.ORG", key, true)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		line, name string
		want       bool
	}{
		{line("example.org", key), "example.org", true},
		{line("Example.ORG", key), "EXAMPLE.org", true},
		{line("other,example.org,192.0.2.1", key), "192.0.2.1", true},
		{line("example.org", key), "[example.org]:2222", false},
		{line("[example.org]:2222", key), "[example.org]:2222", true},
		{line("[example.org]:2222", key), "example.org", false},
		{line("*.org", key), "example.org", true},
		{line("*.org", key), "[example.org]:2222", false},
		{line("*", key), "[example.org]:2222", true},
		{line("*.org,!example.org", key), "example.org", false},
		{line("!example.org,*.org", key), "example.com", false},
		{line("192.0.2.?", key), "192.0.2.7", true},
		{line("fe80::1", key), "fe80::1", true},
		{hashed, "example.org", true},
		{hashed, "example.com", false},
		{hashed, "[example.org]:2222", false},
		{"  " + line("example.org", key) + " comment and more", "example.org", true},
		{"@cert-authority " + line("*.org", key), "example.org", true},
		{"# " + line("example.org", key), "example.org", false},
		{"@unknown " + line("example.org", key), "example.org", false},
		{"@revoked @revoked " + line("example.org", key), "example.org", false},
		{"example.org ssh-rsa " + base64.StdEncoding.EncodeToString(key.Marshal()), "example.org", false},
		{"example.org ssh-ed25519 AAAA", "example.org", false},
		{"example.org ssh-ed25519 !!!!", "example.org", false},
		{"example.org 2048 35 123456789", "example.org", false}, // version 1
		{"example.org ssh-ed25519", "example.org", false},
		{"|1|AAAA|BBBB ssh-ed25519 AAAA", "example.org", false},
		{"|2|" + strings.TrimPrefix(hashed, "|1|"), "example.org", false},
		{"", "example.org", false},
		{"@", "example.org", false},
		{"\x00\xff", "example.org", false},
	}
	for _, test := range tests {
		var k known
		if err := k.scan(strings.NewReader(test.line), "f", test.name); err != nil {
			t.Error(err)
		}
		if got := len(k.keys)+len(k.authorities) == 1; got != test.want || revokedBy([]byte(test.line), []ssh.PublicKey{key}) != nil {
			t.Errorf("%s for %s: %+v", test.line, test.name, k)
		}
	}
}

// Entries have the right line numbers, whatever lines are between them, and the right kinds.
func TestKnownRead(t *testing.T) {
	a, b, c := newKey(t, "ed25519").PublicKey(), newKey(t, "ecdsa").PublicKey(), newKey(t, "rsa").PublicKey()
	text := "# first\n\n" + line("h", a) + "\n" +
		strings.Repeat("x", maxKnownLine/2) + " " + line("h", b) + "\n" +
		"garbage\r\n" + line("h", b) + "\r\n" +
		"@revoked " + line("elsewhere", c) + "\n@cert-authority " + line("h", c) // and no line break
	file := writeFile(t, "known", text)
	var k known
	if err := k.read([]string{filepath.Join(t.TempDir(), "missing"), os.DevNull, file}, "h"); err != nil {
		t.Fatal(err)
	}
	revoked, err := revokedIn([]string{file}, []ssh.PublicKey{a, b, c})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(k.keys, revoked, k.authorities)
	want := fmt.Sprint([]KnownKey{{a, file, 3}, {b, file, 6}}, []KnownKey{{c, file, 7}}, []KnownKey{{c, file, 8}})
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	// An unreadable file must not look like an unknown host.
	if err := k.read([]string{t.TempDir()}, "h"); err == nil {
		t.Error("a directory was read")
	}
	if runtime.GOOS != "windows" && os.Getuid() != 0 {
		if err := os.Chmod(file, 0); err != nil {
			t.Fatal(err)
		}
		if err := k.read([]string{file}, "h"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v", err)
		}
	}
}

func TestKnownBounds(t *testing.T) {
	key := newKey(t, "ed25519").PublicKey()
	var k known
	if err := k.scan(strings.NewReader(strings.Repeat(line("h", key)+"\n", maxKnownFound+10)), "f", "h"); err != nil {
		t.Fatal(err)
	}
	if len(k.keys) != maxKnownFound {
		t.Errorf("%d keys", len(k.keys))
	}
	// A long line of many hosts is used; a line beyond the bound is an error.
	others := strings.Repeat("other.example,", maxKnownLine/2/len("other.example,"))
	var long known
	if err := long.scan(strings.NewReader(others+line("h", key)), "f", "h"); err != nil || len(long.keys) != 1 {
		t.Errorf("a long line: %d keys, %v", len(long.keys), err)
	}
	if err := k.scan(strings.NewReader("\n"+others+others+others+line("h", key)), "f", "h"); err == nil || !strings.Contains(err.Error(), "f:2: the line has more than") {
		t.Errorf("a line that is too long: %v", err)
	}
	if err := k.scan(endless{}, "f", "h"); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("an endless file: %v", err)
	}
}

// An endless reader has no line breaks.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestOrder(t *testing.T) {
	ed, ec, rsa := newKey(t, "ed25519").PublicKey(), newKey(t, "ecdsa").PublicKey(), newKey(t, "rsa").PublicKey()
	tests := []struct {
		name string
		k    known
		want []string
	}{
		{"nothing", known{}, defaultHostKeyAlgorithms[:2]},
		{"rsa", known{keys: []KnownKey{{Key: rsa}}}, []string{ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.CertAlgoED25519v01}},
		{"ecdsa", known{keys: []KnownKey{{Key: ec}}}, []string{ssh.CertAlgoECDSA256v01, ssh.KeyAlgoECDSA256, ssh.CertAlgoED25519v01}},
		{"authority", known{authorities: []KnownKey{{Key: rsa}}}, defaultHostKeyAlgorithms[:6]},
		{"authority and key", known{keys: []KnownKey{{Key: ed}}, authorities: []KnownKey{{Key: rsa}}}, append(slices.Clone(defaultHostKeyAlgorithms[:6]), ssh.KeyAlgoED25519)},
	}
	for _, test := range tests {
		got := test.k.order(defaultHostKeyAlgorithms)
		if len(got) != len(defaultHostKeyAlgorithms) || !slices.Equal(got[:len(test.want)], test.want) {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}

func TestAddKnown(t *testing.T) {
	key, other := newKey(t, "ed25519").PublicKey(), newKey(t, "ed25519").PublicKey()
	file := filepath.Join(t.TempDir(), "new", "known_hosts")
	add := func(name string, key ssh.PublicKey, hash, want bool) {
		t.Helper()
		if added, err := addKnown(file, name, key, hash); err != nil || added != want {
			t.Fatalf("add %s: %v %v", name, added, err)
		}
	}
	add("[H.example]:7", key, false, true)
	add("[h.example]:7", key, false, false)
	add("[h.example]:7", key, true, false)
	add("secret.example", key, true, true)
	add("secret.example", other, true, true)
	add("secret.example", key, false, false)

	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 4 || lines[0] != line("[h.example]:7", key) || strings.Contains(string(text), "secret") {
		t.Errorf("got %q", lines)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Stat(filepath.Dir(file))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && (info.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700) {
		t.Errorf("modes %v and %v", info.Mode(), dir.Mode())
	}

	// After a line without a line break, a new line begins. Symbolic links stay.
	file = writeFile(t, "cut", line("cut", key)[:20])
	link := file + "-link"
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	if _, err := addKnown(link, "h", key, false); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(file)
	if want := line("cut", key)[:20] + "\n" + line("h", key) + "\n"; err != nil || string(text) != want {
		t.Errorf("got %q, %v", text, err)
	}

	for _, name := range []string{"", "a b", "a,b", "*", "|1|", "#", "@revoked", "a\nb"} {
		if _, err := addKnown(file, name, key, false); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

// If many goroutines add keys at once, each key is added once.
func TestAddKnownAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	keys := []ssh.PublicKey{newKey(t, "ed25519").PublicKey(), newKey(t, "ed25519").PublicKey()}
	var work sync.WaitGroup
	for i := range 20 {
		work.Go(func() {
			if _, err := addKnown(file, "h", keys[i%2], i%3 == 0); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	text, err := os.ReadFile(file)
	if err != nil || strings.Count(string(text), "\n") != 2 {
		t.Errorf("got %q, %v", text, err)
	}
}

// ssh-keygen finds the entries that we wrote, and we find those that it hashed.
func TestKnownHostsOfKeygen(t *testing.T) {
	program(t, "ssh-keygen")
	key := newKey(t, "ed25519").PublicKey()
	file := filepath.Join(t.TempDir(), "known_hosts")
	names := []string{"plain.example", "[port.example]:2222", "192.0.2.1", "fe80::1"}
	for i, name := range names {
		if _, err := addKnown(file, name, key, i%2 == 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if out := run(t, "ssh-keygen", "-F", name, "-f", file); !strings.Contains(out, "found") {
			t.Errorf("ssh-keygen does not find %s: %s", name, out)
		}
	}
	run(t, "ssh-keygen", "-H", "-f", file)
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "example") {
		t.Fatalf("not hashed: %s %v", text, err)
	}
	for _, name := range append(names, "no.example") {
		var k known
		if err := k.read([]string{file}, name); err != nil {
			t.Fatal(err)
		}
		if found := has(k.keys, key) != nil; found != (name != "no.example") {
			t.Errorf("%s: found %v", name, found)
		}
	}
}

func TestReadRevoked(t *testing.T) {
	key := newKey(t, "ed25519").PublicKey()
	file := writeFile(t, "revoked", "# old ones\n\n"+string(ssh.MarshalAuthorizedKey(key)))
	got, err := readRevoked(file)
	if err != nil || len(got) != 1 || got[0].Line != 3 || !sameKey(got[0].Key, key) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, text := range []string{"garbage\n", "SSHKRL\n\x00\x00", strings.Repeat("#", maxConfigFile+1)} {
		if _, err := readRevoked(writeFile(t, "revoked", text)); err == nil {
			t.Errorf("%.20q was read", text)
		}
	}
}
