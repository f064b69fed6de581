//go:build unix

package audit

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe in place of a file keeps nobody waiting.
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
