//go:build unix

package users

import (
	"os"
	"path/filepath"
	"testing"
)

// A second name of another file, in the place of a change that was cut short, is not taken over: that
// would empty the other file.
func TestOpenLeftSecondName(t *testing.T) {
	dir := t.TempDir()
	victim, temp := filepath.Join(dir, "victim"), filepath.Join(dir, "temp")
	if err := os.WriteFile(victim, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(victim, temp); err != nil {
		t.Fatal(err)
	}
	if f, err := openNew(t.Context(), temp, filepath.Join(dir, "users")); err == nil {
		f.Close()
		t.Error("a second name of another file was taken over")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "content" {
		t.Errorf("the other file has %q, %v", text, err)
	}
}
