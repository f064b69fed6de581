package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/pem"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/users"
)

// keyLine makes a public key.
func keyLine(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

// haulWith is haul with something on standard input.
func haulWith(t *testing.T, input string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs lockedBuffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(input))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		code = exitCode(err)
		_, _ = errs.Write([]byte(err.Error()))
	}
	return code, out.String(), errs.String()
}

func TestUserAdd(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users")
	key, other := keyLine(t), keyLine(t)
	keyFile := filepath.Join(dir, "id.pub")
	writeFile(t, keyFile, "# mine\n"+key+" me\n\n"+`from="10.0.0.0/8" `+other+"\n")
	add := func(input string, args ...string) {
		t.Helper()
		args = append([]string{"user", "add", "--users", file}, args...)
		if code, out, errs := haulWith(t, input, args...); code != 0 || !strings.HasPrefix(out, "added ") {
			t.Errorf("%q: exit code %d, %s%s", args, code, out, errs)
		}
	}
	add("correct horse\n", "alice", "--password-stdin", "--root", "%u", "--limit", "20M", "--from", "192.0.2.0/24,2001:db8::/32")
	add("", "bob", "--key", keyFile, "--access", "read-only")
	add(key+"\n", "carl", "--key", "-", "--key", `command="internal-sftp -R" `+other)
	add("correct horse\r\n", "dora", "--password-stdin", "--key", key, "--access", "upload-only")

	d, err := users.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	alice, _ := d.User("alice")
	if alice.Root != "alice" || alice.Limit != 20<<20 || len(alice.From) != 2 || alice.Access != users.Full {
		t.Errorf("alice is %+v", alice)
	}
	at := users.Attempt{Peer: alice.From[0].Addr().Next()}
	if _, err := d.Password(t.Context(), at, "alice", []byte("correct horse")); err != nil {
		t.Errorf("alice's password: %v", err)
	}
	if _, err := d.Password(t.Context(), at, "dora", []byte("correct horse")); err != nil {
		t.Errorf("dora's password: %v", err)
	}
	for name, keys := range map[string]int{"alice": 0, "bob": 2, "carl": 2, "dora": 1} {
		if u, ok := d.User(name); !ok || len(u.Keys) != keys {
			t.Errorf("%s has %d keys, want %d", name, len(u.Keys), keys)
		}
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the users file is %v, %v", info.Mode(), err)
	}

	code, out, errs := haul(t, "user", "list", "--users", file)
	want := `USER   LOGIN            ACCESS       ROOT   LIMIT    FROM
alice  password         full         alice  20MiB/s  192.0.2.0/24 2001:db8::/32
bob    2 keys           read-only    -      -        -
carl   2 keys           full         -      -        -
dora   password, 1 key  upload-only  -      -        -
`
	if code != 0 || out != want || errs != "" {
		t.Errorf("exit code %d, %s, want\n%s, got\n%s", code, errs, want, out)
	}
}

// Whatever is refused leaves the users file as it was.
func TestUserAddRefused(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users")
	if code, _, errs := haul(t, "user", "add", "alice", "--users", file, "--key", keyLine(t)); code != 0 {
		t.Fatal(errs)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "id"), string(pem.EncodeToMemory(block)))
	writeFile(t, filepath.Join(dir, "none.pub"), "# no key\n")
	key := keyLine(t)
	for _, test := range []struct {
		input string
		args  []string
		code  int
		says  string
	}{
		{"", []string{"alice", "--key", key}, exitFailed, "alice is in"},
		{"", []string{"bob"}, exitUsage, "--password-stdin"},
		{"", []string{"bob", "--password"}, exitUsage, "no terminal"},
		{"", []string{"bob", "--password-stdin"}, exitFailed, "empty"},
		{"\n", []string{"bob", "--password-stdin"}, exitFailed, "empty"},
		{"short", []string{"bob", "--password-stdin"}, exitFailed, "fewer than 8 bytes"},
		{strings.Repeat("x", users.MaxPassword+1), []string{"bob", "--password-stdin"}, exitFailed, "more than"},
		{"longpassword\nlongpassword\n", []string{"bob", "--password-stdin"}, exitUsage, "more than one line"},
		{"x", []string{"bob", "--password-stdin", "--password"}, exitUsage, "exclude each other"},
		{"x", []string{"bob", "--password-stdin", "--key", "-"}, exitUsage, "read once"},
		{"x", []string{"bob", "--key", "-", "--key", "-"}, exitUsage, "read once"},
		{"x", []string{"bob", "--key", "-", "--password"}, exitUsage, "standard input"},
		{"nonsense", []string{"bob", "--key", "-"}, exitUsage, "standard input"},
		{"", []string{"bob", "--key", ""}, exitUsage, "empty"},
		{"", []string{"bob", "--key", filepath.Join(dir, "id")}, exitUsage, "private key"},
		{"", []string{"bob", "--key", filepath.Join(dir, "none.pub")}, exitUsage, "no key in it"},
		{"", []string{"bob", "--key", filepath.Join(dir, "missing")}, exitLocal, "missing"},
		{"", []string{"bob", "--key", "ssh-ed25519 AAAA"}, exitUsage, "key: "},
		{"", []string{"bob", "--key", `command="/bin/sh" ` + key}, exitUsage, "command"},
		{"", []string{"bob", "--key", key, "--root", "../x"}, exitUsage, ".."},
		{"", []string{"bob", "--key", key, "--root", "a\nuser eve"}, exitUsage, "control characters"},
		{"", []string{"bob", "--key", key, "--access", "all"}, exitUsage, "--access"},
		{"", []string{"bob", "--key", key, "--from", "10.0.0.1/8"}, exitUsage, "write 10.0.0.0/8"},
		{"", []string{"bob", "--key", key, "--limit", "x"}, exitUsage, "--limit"},
		{"", []string{"b/ob", "--key", key}, exitUsage, "name"},
		{"", []string{"", "--key", key}, exitUsage, "name"},
		{"", []string{"bob", "--key", key, "--users", filepath.Join(dir, "no", "users")}, exitLocal, "no such file"},
	} {
		args := append([]string{"user", "add", "--users", file}, test.args...)
		if code, out, errs := haulWith(t, test.input, args...); code != test.code || !strings.Contains(errs, test.says) {
			t.Errorf("%q: exit code %d, %s%s; want %d, and %q", test.args, code, out, errs, test.code, test.says)
		}
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the users file has become\n%s, %v", after, err)
	}
}

func TestUserPasswordAndRemove(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users")
	run := func(code int, input string, args ...string) string {
		t.Helper()
		args = append(args, "--users", file)
		got, out, errs := haulWith(t, input, append([]string{"user"}, args...)...)
		if got != code {
			t.Errorf("%q: exit code %d, %s%s; want %d", args, got, out, errs, code)
		}
		return out + errs
	}
	password := func(word string) bool {
		t.Helper()
		d, err := users.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Password(t.Context(), users.Attempt{}, "alice", []byte(word))
		return err == nil
	}
	if said := run(exitLocal, "", "list"); !strings.Contains(said, "user add NAME") {
		t.Errorf("without a file: %s", said)
	}
	run(0, "first password", "add", "alice", "--password-stdin")
	run(0, "", "add", "bob", "--key", keyLine(t))
	run(0, "second password", "password", "alice", "--password-stdin")
	if password("first password") || !password("second password") {
		t.Error("the password is not the second one")
	}
	run(exitFailed, "", "password", "alice", "--password-stdin")
	run(exitUsage, "x", "password", "alice", "--password-stdin", "--none")
	run(exitFailed, "third password", "password", "eve", "--password-stdin")
	run(exitUsage, "", "password", "alice")
	if !password("second password") {
		t.Error("what was refused has changed the password")
	}
	run(0, "", "password", "alice", "--none")
	if password("second password") || !strings.Contains(run(0, "", "list"), "no password, no key") {
		t.Error("the password is still there")
	}
	run(exitFailed, "", "remove", "eve")
	run(0, "", "remove", "alice", "bob")
	if said := run(0, "", "list"); strings.Count(said, "\n") != 1 {
		t.Errorf("left are %s", said)
	}
}
