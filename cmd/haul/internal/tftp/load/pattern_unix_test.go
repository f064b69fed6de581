//go:build unix

package load

import (
	"os"
	"path/filepath"
	"testing"
)

// A link in the place of a test file is not followed.
func TestWriteFilesLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "f0")); err != nil {
		t.Fatal(err)
	}
	if err := WriteFiles(dir, "f"+placeholder, 1, 10); err == nil {
		t.Error("a link was followed")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "content" {
		t.Errorf("the file that the link leads to has %q, %v", text, err)
	}
}
