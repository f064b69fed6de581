//go:build unix

package audit

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in place of a file blocks nothing.
func TestPipe(t *testing.T) {
	h := NewHasher()
	defer h.Close()
	path := filepath.Join(t.TempDir(), "file")
	file := publish(t, path, []byte("content"))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	wantWhy(t, hash(t, h, path, file), "replaced")
	if l, err := Open(path, slog.New(slog.DiscardHandler)); err == nil {
		l.Close()
		t.Error("a pipe is taken for a log")
	}
}

// A symbolic link in place of the log is not followed: its target is neither opened nor created.
func TestLink(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "audit"), filepath.Join(dir, "victim")
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		l, err := Open(path, slog.New(slog.DiscardHandler))
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("a link is taken for a log: %v", err)
		}
	}
	refused()
	if _, err := os.Stat(victim); err == nil {
		t.Error("the file that the link leads to was made")
	}
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused()
}

// A log that another user owns or may change is refused, except if that is the user that the server
// becomes.
func TestOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	for _, c := range []struct {
		uid  int
		perm os.FileMode
		says string
	}{{0, 0o600, ""}, {0, 0o602, "everybody"}, {4711, 0o600, ""}, {4712, 0o600, "user 4712"}} {
		if c.uid != 0 && os.Geteuid() != 0 {
			continue // only root can give files away
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if c.uid != 0 {
			if err := os.Chown(path, c.uid, -1); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, c.perm); err != nil {
			t.Fatal(err)
		}
		l, err := Open(path, slog.New(slog.DiscardHandler), 4711)
		if err == nil {
			l.Close()
		}
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("user %d, mode %04o: %v, want %q", c.uid, c.perm, err, c.says)
		}
	}
}
