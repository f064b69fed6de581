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
