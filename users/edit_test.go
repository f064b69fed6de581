package users_test

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/users"
)

func content(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A user that was written by Add is read back unchanged.
func TestAdd(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "users")
	all := []users.User{
		{Name: "bare"},
		{
			Name: "alice", Password: hash(t, "secret"),
			Keys: []users.Key{key(t, `from="10.*",command="internal-sftp -R"`, newSigner(t).PublicKey()), key(t, "", newSigner(t).PublicKey())},
			Root: "alice's files", Access: users.UploadOnly, Limit: 12345,
			From:    []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
			Require: users.KeyAndPassword, Disabled: true, KeyFiles: []string{"a b", "c"},
		},
	}
	for _, u := range all {
		if err := users.Add(t.Context(), file, u); err != nil {
			t.Fatal(err)
		}
	}
	got, err := users.ParseText(content(t, file))
	if err != nil {
		t.Fatal(err)
	}
	for i, u := range got {
		if len(u.Keys) != len(all[i].Keys) {
			t.Fatalf("user %d has become %+v", i, u)
		}
		for n, k := range u.Keys {
			if k.String() != all[i].Keys[n].String() {
				t.Errorf("key %s has become %s", all[i].Keys[n], k)
			}
		}
		u.Keys, all[i].Keys = nil, nil
		if !reflect.DeepEqual(u, all[i]) {
			t.Errorf("user %d has become\n%+v, was\n%+v", i, u, all[i])
		}
	}
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the new file is %v, %v", info.Mode(), err)
	}
	before := content(t, file)
	for _, u := range []users.User{
		{Name: "alice"}, {Name: "ALICE"}, {Name: ".."}, {Name: ""},
		{Name: "x", Root: "/a\npassword y"}, {Name: "x", KeyFiles: []string{"a\r\nuser y"}}, {Name: "x", Root: "../.."},
		{Name: "x", Keys: []users.Key{{}}}, {Name: "x", Limit: -1}, {Name: "x", Access: 7},
	} {
		if err := users.Add(t.Context(), file, u); err == nil {
			t.Errorf("%+v was added", u)
		}
	}
	if content(t, file) != before {
		t.Error("what failed has changed the file")
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 {
		t.Errorf("left behind: %q", names)
	}
}

const edited = `# Our users.
root srv/%u

# Accounting.
user alice
	# by phone, 2026-03-01
	password OLD
	access read-only

# Scanners on the second floor.
user scanner
  access upload-only
  # until the move

user zoe`

func TestEdits(t *testing.T) {
	old, fresh := hash(t, "old"), hash(t, "fresh")
	start := strings.Replace(edited, "OLD", old.Encoded(), 1)
	set := func(name string, h users.Hash) func(string) error {
		return func(f string) error { return users.SetPassword(t.Context(), f, name, h) }
	}
	remove := func(name string) func(string) error {
		return func(f string) error { return users.Remove(t.Context(), f, name) }
	}
	tests := []struct {
		name     string
		do       func(file string) error
		from, to string // the replaced text and its replacement; "" for an error
	}{
		{"replace a password", set("alice", fresh), old.Encoded(), fresh.Encoded()},
		{"take it away", set("alice", users.Hash{}), "\tpassword " + old.Encoded() + "\n", ""},
		{"a first password", set("scanner", fresh), "user scanner\n", "user scanner\n  password " + fresh.Encoded() + "\n"},
		{"for the last", set("zoe", fresh), "user zoe\n", "user zoe\n  password " + fresh.Encoded() + "\n"},
		{"take away none", set("zoe", users.Hash{}), "", ""},
		{"remove the first", remove("alice"), "user alice\n\t# by phone, 2026-03-01\n\tpassword " + old.Encoded() + "\n\taccess read-only\n", ""},
		{"remove from the middle", remove("scanner"), "user scanner\n  access upload-only\n", ""},
		{"remove the last", remove("zoe"), "\nuser zoe\n", ""},
	}
	for _, ending := range []string{"\n", "\r\n"} {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				file := write(t, t.TempDir(), "users", strings.ReplaceAll(start, "\n", ending))
				if err := test.do(file); err != nil {
					t.Fatal(err)
				}
				want := start + "\n"
				if test.from != "" {
					want = strings.Replace(want, test.from, test.to, 1)
				}
				if got := strings.ReplaceAll(content(t, file), "\r\n", "\n"); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				open(t, file)
			})
		}
	}
	file := write(t, t.TempDir(), "users", start)
	for _, do := range []func(string) error{set("nobody", fresh), remove("nobody"), remove(""), set("ALICE", fresh), remove("access")} {
		if err := do(file); err == nil {
			t.Error("a user who does not exist was changed")
		}
	}
	if content(t, file) != start {
		t.Error("what failed has changed the file")
	}
	for _, do := range []func(string) error{set("alice", fresh), remove("alice")} {
		missing := filepath.Join(t.TempDir(), "users")
		if err := do(missing); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a missing file: %v", err)
		}
		if names, _ := filepath.Glob(missing + "*"); len(names) > 0 {
			t.Errorf("left behind: %q", names)
		}
	}
}

// Changes at the same time wait for each other, but not for a change whose process is dead.
func TestEditsWait(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("what is left has to be removed there")
	}
	dir := t.TempDir()
	file := write(t, dir, "users", "user alice\n")
	lock := write(t, dir, "users.new", "half of")
	const n = 8
	errs := make(chan error)
	for i := range n {
		go func() { errs <- users.Add(t.Context(), file, users.User{Name: string(rune('a' + i))}) }()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := strings.Count(content(t, file), "user "); got != n+1 {
		t.Errorf("%d users are there, want %d:\n%s", got, n+1, content(t, file))
	}
	if _, err := os.Lstat(lock); !errors.Is(err, fs.ErrNotExist) {
		t.Error("left behind:", err)
	}
}

// A change that waits for another one stops waiting when its context ends.
func TestEditInterrupted(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "users", "user alice\n")
	other, err := os.Create(filepath.Join(dir, "users.new"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if locked, err := filelock.Try(other); !locked || err != nil {
		t.Skipf("no lock: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if err := users.Add(ctx, file, users.User{Name: "bob"}); !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
}

// A change by root that was interrupted has left a file that already belongs to the owner of the
// users file. The next change by root takes over that file, too.
func TestEditTakesOverTheOwnersFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	file := write(t, dir, "users", "user alice\n")
	for _, name := range []string{file, write(t, dir, "users.new", "half of")} {
		if err := os.Chown(name, 12345, 23456); err != nil {
			t.Fatal(err)
		}
	}
	if err := users.Add(t.Context(), file, users.User{Name: "bob"}); err != nil {
		t.Error(err)
	}
}

// The file keeps its permissions, and a link to it remains a link.
func TestEditKeepsTheFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no such permissions")
	}
	dir := t.TempDir()
	file := write(t, dir, "real/users", "user alice\n")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	other := os.Getuid() == 0
	if other {
		if err := os.Chown(file, 12345, 23456); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "users")
	if err := os.Symlink("real/users", link); err != nil {
		t.Fatal(err)
	}
	if err := users.Add(t.Context(), link, users.User{Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link has become %v, %v", info.Mode(), err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has become %v, %v", info.Mode(), err)
	}
	if uid, gid := owner(info); other && (uid != 12345 || gid != 23456) {
		t.Errorf("the file belongs to %d:%d", uid, gid)
	}
	if !strings.Contains(content(t, file), "user bob\n") {
		t.Error("bob is missing")
	}
}
