package users_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
)

// write makes a file that only its owner may read, and returns its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t testing.TB, file string) *users.Directory {
	t.Helper()
	d, err := users.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestUsersFile(t *testing.T) {
	mine, other := line("", newSigner(t).PublicKey())+" alice # not a comment", line(`from="10.*, 11.*"`, newSigner(t).PublicKey())
	other = strings.Replace(other, ", ", ",", 1)
	h := cheap(t, "secret")
	dir := t.TempDir()
	write(t, dir, "keys/bob", other+"\n\n# more\n"+mine+"\r\n")
	d := open(t, write(t, dir, "users", `# all of them
root	files/%u/100%%
limit 1MiB
keys keys/%u
	from 10.0.0.0/8 ::1

user alice
    password `+h+`
  key `+mine+`
  key `+other+`
  root a # b
  access read-only
  limit 64k
  from 192.0.2.0/24
  require key+password
  keys keys/missing
  # a comment`+"\r\n"+`
user bob
  require any
  access full
user carol
  disabled
  access upload-only`))

	if got := d.Names(); !slices.Equal(got, []string{"alice", "bob", "carol"}) {
		t.Fatalf("users %q", got)
	}
	alice, _ := d.User("alice")
	if alice.Password.Encoded() != h || len(alice.Keys) != 2 || alice.Keys[0].Comment != "alice # not a comment" || alice.Root != "a # b" ||
		alice.Access != users.ReadOnly || alice.Limit != 64<<10 || alice.Require != users.KeyAndPassword || alice.Disabled ||
		fmt.Sprint(alice.From) != "[192.0.2.0/24]" {
		t.Errorf("alice: %+v", alice)
	}
	bob, _ := d.User("bob")
	if !bob.Password.IsZero() || len(bob.Keys) != 2 || filepath.ToSlash(bob.Root) != "files/bob/100%" || bob.Limit != 1<<20 ||
		fmt.Sprint(bob.From) != "[10.0.0.0/8 ::1/128]" || bob.Access != users.Full {
		t.Errorf("bob: %+v", bob)
	}
	carol, _ := d.User("carol")
	if !carol.Disabled || carol.Access != users.UploadOnly || len(carol.Keys) != 0 {
		t.Errorf("carol: %+v", carol)
	}
	if _, ok := d.User("dave"); ok {
		t.Error("there is a dave")
	}
	// Only a file named for a single user must exist.
	if ws := d.Warnings(); len(ws) != 1 || !strings.Contains(ws[0].Error(), "users, line 7: user alice:") {
		t.Errorf("warnings %v", ws)
	}
}

func TestBadUsersFiles(t *testing.T) {
	good := line("", newSigner(t).PublicKey())
	h := cheap(t, "secret")
	secret := "$2a$15$" + h[7:] // too expensive
	tests := []struct{ name, text, want string }{
		{"keyword", "user a\n  shell /bin/sh\n", `line 2: "shell" is no keyword`},
		{"case", "User a\n", `line 1: "User" is no keyword`},
		{"no value", "user a\n\n# x\n  root\n", "line 4: root says nothing"},
		{"value", "user a\ndisabled no\n", "line 2: disabled takes nothing"},
		{"twice", "user a\naccess full\naccess full\n", "line 3: access is given twice"},
		{"default twice", "access full\naccess full\nuser a", "line 2: access is given twice"},
		{"password for all", "password " + h + "\nuser a\n", "line 1: password before the first user"},
		{"key for all", "key " + good + "\n", "line 1: key before"},
		{"all disabled", "disabled\n", "line 1: disabled before"},
		{"authority late", "user a\nauthority " + good + "\n", "line 2: authority behind the first user"},
		{"revoked late", "user a\nrevoked x\n", "line 2: revoked behind"},
		{"revoked for each", "revoked x/%u\n", "line 1: revoked is for all users"},
		{"revoked nothing", "revoked\n", "line 1: the path is missing"},
		{"authorities by host", "authorities x/%h\n", "line 1: after %"},
		{"keys by host", "user a\nkeys x/%h\n", "line 2: after %"},
		{"keys of nobody", "user a\nkeys\n", "line 2: keys says nothing"},
		{"same name", "user a\nuser b\nuser a\n", "line 3: user a is there already, as a in line 1"},
		{"same name but for case", "user alice\nuser Alice\n", "line 2: user Alice is there already, as alice in line 1"},
		{"no name", "user\n", "line 1: the user has no name"},
		{"bad name", "user ../x\n", "line 1:"},
		{"two names", "user a b\n", "line 1:"},
		{"hash", "user a\npassword " + secret + "\n", "line 2: the bcrypt hash has cost 15"},
		{"plain password", "user a\npassword hunter22\n", "line 2: the password is neither"},
		{"key", "user a\nkey ssh-ed25519 AAAA\n", "line 2: the key cannot be read"},
		{"key option", "user a\nkey sudo " + good + "\n", `line 2: option "sudo" is not known`},
		{"authority", "authority " + good[:30] + "\n", "line 1:"},
		{"access", "user a\naccess rw\n", `line 2: access "rw": choose full`},
		{"require", "user a\nrequire both\n", "line 2: requirement"},
		{"limit", "user a\nlimit fast\n", `line 2: "fast" is no rate`},
		{"no limit", "user a\nlimit 0\n", `line 2: "0" is no rate`},
		{"negative limit", "user a\nlimit -1k\n", "is no rate"},
		{"limit too large", "user a\nlimit 9223372036854775807k\n", "is no rate"},
		{"network", "user a\nfrom 10.0.0.1/8\n", "line 2: the network 10.0.0.1/8 has bits beyond"},
		{"host", "user a\nfrom example.org\n", "line 2:"},
		{"zone", "user a\nfrom fe80::1%eth0\n", "line 2:"},
		{"root", "user a\nroot ../x\n", "line 2: the root"},
		{"root of all", "root /x/%h\nuser a\n", "line 1: after %"},
		{"control", "user a\nroot /x\x01\n", "line 2: control characters"},
		{"NUL", "user a\x00\n", "line 1: control characters"},
		{"escape in a comment is a comment", "# \x1b[31m\nuser a\nx\n", "line 3:"},
		{"long line", "user a\nroot /" + strings.Repeat("x", 20000) + "\n", "line 2: 2000"},
		{"not UTF-8", "user a\xff\n", "not UTF-8"},
		{"several", "user a\nx 1\ny 2\n", "line 3:"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := users.Open(write(t, t.TempDir(), "users", test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter22") || strings.Contains(err.Error(), secret[10:]) {
				t.Errorf("the error has a secret in it: %v", err)
			}
		})
	}
	_, err := users.ParseText(strings.Repeat("x\n", 1000))
	if n := strings.Count(err.Error(), "\n") + 1; n != 20 {
		t.Errorf("%d faults are reported", n)
	}
	if _, err := users.ParseText(""); err != nil {
		t.Error(err)
	}
}

// A bad line in a user's authorized_keys file does not affect other users, and the reason is
// reported.
func TestBadAuthorizedKeys(t *testing.T) {
	good, shell, old := newSigner(t), newSigner(t), newSigner(t)
	dir := t.TempDir()
	write(t, dir, "keys", strings.Join([]string{
		"garbage",
		line(`command="/usr/bin/rsync --server"`, shell.PublicKey()),
		line("", fakeDSA(t)),
		line("", fakeRSA(t, 1024)),
		line("frobnicate", old.PublicKey()),
		line("", good.PublicKey()),
	}, "\n"))
	w := &world{t: t, d: open(t, write(t, dir, "users", "user alice\nkeys keys\nuser bob\nkey "+line("", good.PublicKey())))}
	ws := w.d.Warnings()
	for i, want := range []string{"keys, line 1: ", "keys, line 2: the command \"/usr/bin/rsync --server\" is forced", "keys, line 3: ", "keys, line 4: the RSA key has 1024 bits", "keys, line 5: option \"frobnicate\""} {
		if i >= len(ws) || !strings.Contains(ws[i].Error(), want) {
			t.Errorf("warning %d of %v, want %q", i, ws, want)
		}
	}
	l, err := w.withKeys("alice", good)
	w.want(l, err, "")
	l, err = w.withKeys("alice", shell)
	w.want(l, err, `keys, line 2: the command "/usr/bin/rsync --server" is forced, but only internal-sftp can be`)
	l, err = w.withKeys("alice", old)
	w.want(l, err, `keys, line 5: option "frobnicate" is not known`)
	l, err = w.withKeys("bob", good)
	w.want(l, err, "")
}

func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no such permissions")
	}
	k := line("", newSigner(t).PublicKey())
	for _, test := range []struct {
		file string
		mode os.FileMode
		want string // "" and "warning" mean that Open succeeds; with "warning" the keys are not used
	}{
		{"users", 0o600, ""}, {"users", 0o400, ""}, {"users", 0o640, ""}, {"users", 0o644, "everybody may read"}, {"users", 0o660, "may write"}, {"users", 0o606, "may write"},
		{"ca", 0o644, ""}, {"ca", 0o664, "may write"}, {"ca", 0o646, "may write"},
		{"revoked", 0o644, ""}, {"revoked", 0o666, "may write"},
		{"keys", 0o644, ""}, {"keys", 0o664, "warning"}, {"keys", 0o646, "warning"},
	} {
		dir := t.TempDir()
		file := write(t, dir, "users", "authorities ca\nrevoked revoked\nuser alice\nkeys keys\n")
		for _, name := range []string{"ca", "keys"} {
			write(t, dir, name, k)
		}
		write(t, dir, "revoked", "")
		if err := os.Chmod(filepath.Join(dir, test.file), test.mode); err != nil {
			t.Fatal(err)
		}
		d, err := users.Open(file)
		switch {
		case test.want == "warning":
			if err != nil || len(d.Warnings()) != 1 {
				t.Errorf("%s %v: %v", test.file, test.mode, err)
			} else if u, _ := d.User("alice"); len(u.Keys) != 0 {
				t.Errorf("%s %v grants %d keys", test.file, test.mode, len(u.Keys))
			}
		case test.want == "" && (err != nil || len(d.Warnings()) > 0):
			t.Errorf("%s %v: %v", test.file, test.mode, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s %v: %v, want %q", test.file, test.mode, err, test.want)
		}
	}
}

// A file must belong to one of the given owners or to root, because its owner may change it.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	k := line("", newSigner(t).PublicKey())
	for _, test := range []struct {
		file string
		uid  int
		want string
	}{
		{"users", 0, ""}, {"users", 1000, ""}, {"users", 1001, ""}, {"users", 1234, "belongs to user 1234"},
		{"ca", 1000, ""}, {"ca", 1234, "belongs to user 1234"}, {"revoked", 1234, "belongs to user 1234"},
		{"keys", 1234, ""}, // keys of a user, in the user's home directory
	} {
		dir := t.TempDir()
		file := write(t, dir, "users", "authorities ca\nrevoked revoked\nuser alice\nkeys keys\n")
		for _, name := range []string{"ca", "keys"} {
			write(t, dir, name, k)
		}
		write(t, dir, "revoked", "")
		if err := os.Chown(filepath.Join(dir, test.file), test.uid, 0); err != nil {
			t.Fatal(err)
		}
		d, err := users.Open(file, 1000, 1001)
		if test.want == "" && (err != nil || len(d.Warnings()) > 0) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s of %d: %v, want %q", test.file, test.uid, err, test.want)
		}
		if _, err := users.Open(file); err != nil {
			t.Errorf("%s of %d, and any owner will do: %v", test.file, test.uid, err)
		}
	}
	// A server notices that the file changes its owner, in both directions.
	file := write(t, t.TempDir(), "users", "user alice\nkey "+k)
	d, err := users.Open(file, 1000)
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for _, uid := range []int{0, 1234, 1000} {
		if err := errors.Join(os.Chtimes(file, old, old), os.Chown(file, uid, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Reload(); (err != nil) != (uid == 1234) {
			t.Errorf("after it was given to %d: %v", uid, err)
		}
	}
}

// A user who cannot log in by any method is reported, but does not lock out others.
func TestNothingToLogInBy(t *testing.T) {
	k := line("", newSigner(t).PublicKey())
	hash, err := users.HashPassword([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	password := "password " + hash.Encoded() + "\n"
	for text, want := range map[string]string{
		"user x\n":                                               "line 1: user x cannot log in: there is neither a key nor a password",
		"user x\ndisabled\n":                                     "",
		"user x\nkey " + k:                                       "",
		"user x\n" + password:                                    "",
		"authority " + k + "\nuser x\n":                          "",
		"keys none/%u\nuser x\n":                                 "user x cannot log in",
		"require key+password\nuser x\nkey " + k:                 "line 2: user x cannot log in: there is no password",
		"require key+password\nuser x\n" + password:              "user x cannot log in: there is no key",
		"require key+password\nuser x\n" + password + "key " + k: "",
	} {
		d, err := users.Open(write(t, t.TempDir(), "users", text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got := d.Warnings()
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0].Error(), want)) {
			t.Errorf("%q: %v, want %q", text, got, want)
		}
	}
}

// If the path of the users file is not a file, Open fails at once.
func TestNotAFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := users.Open(dir); err == nil {
		t.Error("a directory is a users file")
	}
	if _, err := users.Open(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing users file is one")
	}
	pipe := filepath.Join(dir, "pipe")
	if err := mkfifo(pipe); err != nil {
		t.Skip(err)
	}
	if _, err := users.Open(pipe); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

func TestManyUsers(t *testing.T) {
	const n = 10_000
	k := line("", newSigner(t).PublicKey())
	h := cheap(t, "secret")
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "user u%d\n  password %s\n  key %s\n  key %s\n  root srv/%%u\n", i, h, k, k)
	}
	dir := t.TempDir()
	file := write(t, dir, "users", b.String())
	d := open(t, file)
	if got := len(d.Names()); got != n {
		t.Fatalf("%d users", got)
	}
	at := users.Attempt{Now: now, Peer: netip.MustParseAddr(home)}
	for _, name := range []string{"u0", "u5000", "u9999"} {
		if _, err := d.Password(t.Context(), at, name, []byte("secret")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := users.Remove(t.Context(), file, "u5000"); err != nil {
		t.Fatal(err)
	}
	if changed, err := d.Reload(); !changed || err != nil || len(d.Names()) != n-1 {
		t.Errorf("%v, %v, %d users", changed, err, len(d.Names()))
	}
	b.Reset()
	for i := range users.MaxUsers + 1 {
		fmt.Fprintf(&b, "user u%d\n", i)
	}
	if _, err := users.ParseText(b.String()); err == nil || !strings.Contains(err.Error(), "more than 100000 users") {
		t.Errorf("there may be any number of users: %v", err)
	}
}

func TestStrings(t *testing.T) {
	for _, a := range []users.Access{users.Full, users.ReadOnly, users.UploadOnly} {
		if b, err := users.ParseAccess(a.String()); err != nil || a != b {
			t.Errorf("%v: %v, %v", a, b, err)
		}
	}
	for _, r := range []users.Require{users.AnyMethod, users.KeyAndPassword} {
		if b, err := users.ParseRequire(r.String()); err != nil || r != b {
			t.Errorf("%v: %v, %v", r, b, err)
		}
	}
	if users.Access(9).String() != "Access(9)" || users.Require(9).String() != "Require(9)" || users.Outcome(9).String() != "Outcome(9)" {
		t.Error("values without a name")
	}
}
