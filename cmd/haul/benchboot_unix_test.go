//go:build unix

package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A link in the place of the picture is not followed.
func TestPictureLink(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := os.WriteFile(victim, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := bootFlags{svg: filepath.Join(dir, "link")}
	if err := os.Symlink(victim, b.svg); err != nil {
		t.Fatal(err)
	}
	if err := b.picture(func(io.Writer) error { return nil }); err == nil {
		t.Error("a link was followed")
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "content" {
		t.Errorf("the file that the link leads to has %q, %v", text, err)
	}
}
