//go:build unix

package localdir_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// TestDirNotRegular opens files that a careless server would block on, or devices that it would
// start.
func TestDirNotRegular(t *testing.T) {
	dir, err := os.MkdirTemp("", "haul") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	symlink(t, "fifo", dir, "link")
	d := dirAt(t, dir)
	for _, name := range []string{"fifo", "socket", "link"} {
		wantNotRegular(t, d, name)
	}
	for _, op := range []store.Create{{}, {Size: 1}, {Exclusive: true}} {
		_, err = d.Create(t.Context(), "fifo/f", op)
		wantError(t, "create below a pipe", err, fs.ErrNotExist)
	}
	if _, err := d.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	dev := dirAt(t, "/dev")
	for _, name := range []string{"null", "zero", "tty"} {
		wantNotRegular(t, dev, name)
	}
}

func wantNotRegular(t *testing.T, d *localdir.Dir, name string) {
	t.Helper()
	_, err := d.Open(t.Context(), name)
	wantError(t, "open "+name, err, store.ErrNotRegular)
	wantError(t, "open "+name, err, fs.ErrPermission)
	_, err = d.Create(t.Context(), name, store.Create{})
	wantError(t, "create "+name, err, store.ErrNotRegular)
	_, err = d.Create(t.Context(), name, store.Create{Exclusive: true})
	wantError(t, "exclusive create "+name, err, fs.ErrExist)
	_, err = d.ReadDir(t.Context(), name)
	wantError(t, "readdir "+name, err, fs.ErrNotExist)
}

// TestDirBecomesPipe replaces a file by a pipe just before it is opened or replaced.
func TestDirBecomesPipe(t *testing.T) {
	dir, d := tempDir(t)
	become := func() {
		os.Remove(filepath.Join(dir, "f"))
		if err := syscall.Mkfifo(filepath.Join(dir, "f"), 0o666); err != nil {
			t.Error(err)
		}
	}
	writeFile(t, dir, "f", "x")
	u := begin(t, d, "f", store.Create{})
	d.Before(func(call string) error {
		if call == "open" {
			become()
		}
		return nil
	})
	_, err := d.Open(t.Context(), "f")
	wantError(t, "open", err, store.ErrNotRegular)
	wantError(t, "commit", u.Commit(), store.ErrNotRegular)
	wantNoTemps(t, dir)
}

// TestDirUmask creates files with a umask that forbids everything.
func TestDirUmask(t *testing.T) {
	if os.Getenv(childEnv) == "" {
		// The umask applies to the whole process.
		if out, err := child(t, "umask").CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir, d := tempDir(t)
	syscall.Umask(0o777)
	for perm, want := range map[fs.FileMode]fs.FileMode{0: 0o644, 0o666: 0o666, 0o400: 0o400} {
		if err := upload(t, d, "f", "x", store.Create{Perm: perm}); err != nil {
			t.Error(err)
		}
		if fi, err := os.Stat(filepath.Join(dir, "f")); err != nil || fi.Mode() != want {
			t.Errorf("Perm %v gave %v, %v, want %v", perm, fi.Mode(), err, want)
		}
		os.Remove(filepath.Join(dir, "f"))
	}
}

// TestDirNoPermission makes calls that the file system forbids.
func TestDirNoPermission(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "unreadable", "x")
	writeFile(t, dir, "closed/f", "x")
	writeFile(t, dir, "fixed/f", "x")
	chmod := func(name string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	chmod("unreadable", 0)
	chmod("closed", 0)
	chmod("fixed", 0o555)
	defer chmod("closed", 0o755) // so that dir can be removed
	defer chmod("fixed", 0o755)
	d := dirAt(t, dir)
	dropRoot(t, func() {
		for _, name := range []string{"unreadable", "closed/f", "closed/nothing"} {
			_, err := d.Open(t.Context(), name)
			wantError(t, "open "+name, err, fs.ErrPermission)
			wantError(t, "open "+name, err, syscall.EACCES)
		}
		for _, name := range []string{"fixed/f", "fixed/new", "closed/f"} {
			_, err := d.Create(t.Context(), name, store.Create{})
			wantError(t, "create "+name, err, fs.ErrPermission)
			wantError(t, "create "+name, err, syscall.EACCES)
		}
		_, err := d.Sweep(t.Context())
		wantError(t, "sweep", err, fs.ErrPermission)
	})
}

// TestSweepReadOnly removes the leftover of an upload that died just before it was published, when
// its file was already read-only.
func TestSweepReadOnly(t *testing.T) {
	dir := t.TempDir()
	name := ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part"
	writeFile(t, dir, name, "x")
	if err := os.Chmod(filepath.Join(dir, name), 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	d := dirAt(t, dir)
	dropRoot(t, func() {
		if n, err := d.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("Sweep = %d, %v, want 1 removed", n, err)
		}
	})
}
