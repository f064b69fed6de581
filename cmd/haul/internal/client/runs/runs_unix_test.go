//go:build unix

package runs

import (
	"os"
	"path/filepath"
	"testing"
)

// A link is the file of no run, so the file that it leads to is neither locked nor taken for one.
func TestFreeLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if !free(file) || free(link) {
		t.Errorf("free: the file %v, the link %v", free(file), free(link))
	}
}
