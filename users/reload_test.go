package users_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/users"
)

// age makes files look as if they had been written long ago.
func age(t testing.TB, files ...string) {
	t.Helper()
	for _, f := range files {
		then := time.Now().Add(-time.Hour)
		if err := os.Chtimes(f, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func reload(t *testing.T, d *users.Directory, changed bool, want string) {
	t.Helper()
	got, err := d.Reload()
	if got != changed {
		t.Errorf("reload: changed %v, want %v", got, changed)
	}
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("reload: %v, want %q", err, want)
	}
}

func TestReload(t *testing.T) {
	a, b := line("", newSigner(t).PublicKey()), line("", newSigner(t).PublicKey())
	dir := t.TempDir()
	keys := write(t, dir, "keys", a+"\n")
	revoked := write(t, dir, "revoked", "")
	file := write(t, dir, "users", "revoked revoked\nuser alice\nkeys keys\n")
	age(t, keys, revoked, file)
	d := open(t, file)
	count := func() int {
		u, _ := d.User("alice")
		return len(u.Keys)
	}
	reload(t, d, false, "")

	write(t, dir, "keys", a+"\n"+b+"\n")
	reload(t, d, true, "")
	reload(t, d, false, "") // it is recent, so it is read again, but has the same content
	if count() != 2 {
		t.Errorf("%d keys", count())
	}

	write(t, dir, "users", "revoked revoked\nuser alice\nkeys keys\nwrong\n")
	reload(t, d, false, "line 4")
	reload(t, d, false, "line 4")
	if count() != 2 {
		t.Error("what is wrong has come into force")
	}

	// Keys that still exist are kept, and keys that were removed are gone.
	write(t, dir, "users", "revoked revoked\nuser alice\nkeys keys\n")
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	reload(t, d, true, "")
	if count() != 0 || len(d.Warnings()) != 1 {
		t.Errorf("%d keys, %v", count(), d.Warnings())
	}
	reload(t, d, false, "")
	if err := os.Remove(revoked); err != nil {
		t.Fatal(err)
	}
	reload(t, d, false, "revoked")
	write(t, dir, "keys", a)
	reload(t, d, false, "revoked")
	write(t, dir, "revoked", "")
	reload(t, d, true, "")
	if count() != 1 || len(d.Warnings()) != 0 {
		t.Errorf("%d keys, %v", count(), d.Warnings())
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	reload(t, d, false, "load users")
	if count() != 1 {
		t.Error("with its file the directory is gone")
	}
	write(t, dir, "users", "user bob\n")
	reload(t, d, true, "")
	if _, ok := d.User("alice"); ok {
		t.Error("alice is still there")
	}
}

// A file with the same size and time counts as different if it was replaced.
func TestReloadOfTwins(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "users", "user alice\n")
	age(t, file)
	d := open(t, file)
	then, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	twin := write(t, dir, "twin", "user carol\n")
	if err := os.Chtimes(twin, then.ModTime(), then.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(twin, file); err != nil {
		t.Fatal(err)
	}
	reload(t, d, true, "")
	if _, ok := d.User("carol"); !ok {
		t.Error("the new file was not read")
	}
}

// Lookups during a reload get either the old answer or the new one.
func TestReloadWhileAsked(t *testing.T) {
	dir := t.TempDir()
	h := cheap(t, "secret")
	file := write(t, dir, "users", "user alice\npassword "+h+"\naccess read-only\n")
	d := open(t, file)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				l, err := d.Password(t.Context(), users.Attempt{Now: now}, "alice", []byte("secret"))
				if err != nil || l.Access == users.Full {
					t.Errorf("%+v, %v", l, err)
					return
				}
				d.Names()
				d.Warnings()
			}
		})
	}
	for i := range 20 {
		access := []string{"read-only", "upload-only"}[i%2]
		temp := write(t, dir, "temp", "# "+strings.Repeat("x", i)+"\nuser alice\npassword "+h+"\naccess "+access+"\n")
		if err := os.Rename(temp, file); err != nil {
			t.Error(err)
		}
		if changed, err := d.Reload(); !changed || err != nil {
			t.Errorf("reload %d: %v, %v", i, changed, err)
		}
	}
	close(stop)
	wg.Wait()
}

// Files are found next to the users file, whatever the current directory is.
func TestRelativeFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "etc/keys/alice", line("", newSigner(t).PublicKey()))
	write(t, dir, "etc/users", "keys keys/%u\nuser alice\n")
	t.Chdir(dir)
	d := open(t, filepath.Join("etc", "users"))
	t.Chdir(os.TempDir())
	if u, _ := d.User("alice"); len(u.Keys) != 1 {
		t.Errorf("%+v", u)
	}
	write(t, dir, "etc/users", "keys keys/%u\nuser alice\nuser bob\n")
	reload(t, d, true, "")
	if u, _ := d.User("alice"); len(u.Keys) != 1 {
		t.Errorf("after a reload: %+v", u)
	}
}

// Files returns the files that were read, and those that were looked for and are missing.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"users": "keys keys/%u\nrevoked gone\nuser a\nuser b\n", "gone": "", "keys/a": "# none\n"} {
		if err := os.MkdirAll(filepath.Dir(path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := users.Open(path("users"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{path("gone"), path("keys/a"), path("keys/b"), path("users")}
	if got := d.Files(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	d, err = users.New(users.User{Name: "a"})
	if err != nil || len(d.Files()) != 0 {
		t.Errorf("%q without a file, %v", d.Files(), err)
	}
}
