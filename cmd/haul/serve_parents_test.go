//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// With --upload-parents, uploads create directories, even in a confined process. The directories of
// a failed upload are removed again. Without the flag none are created, and refused names create
// none either.
func TestServeUploadParents(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, childOptions{}, dir, "--upload", "create")
	c.wantPut("a/b/log", "text", exitNotFound)
	c.stop()
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("a directory was made without --upload-parents")
	}

	c = startChild(t, childOptions{}, dir, "--upload", "create", "--upload-parents", "--max-upload", "10", "--access", "deny write * secret/**")
	c.wantPut("a/b/log", "text", 0)
	c.wantGet("a/b/log", "text")
	c.wantPut("a/b/log", "again", exitRefused)
	c.wantPut("a/c/log", "other", 0)
	c.wantPut("large/log", "more than ten bytes", exitRefused)
	raw := c.dial() // the same, without announcing the size
	raw.send("\x00\x02failed/log\x00octet\x00")
	if got := raw.receive(); got != "\x00\x04\x00\x00" {
		t.Fatalf("an upload without a size: %q", got)
	}
	raw.send("\x00\x03\x00\x01more than ten bytes")
	if got := raw.receive(); !strings.HasPrefix(got, "\x00\x05\x00\x03") {
		t.Errorf("an upload that is too large: %q", got)
	}
	c.wantPut("secret/log", "text", exitRefused)
	c.stop()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	})
	if want := []string{"a", "a/b", "a/b/log", "a/c", "a/c/log"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("there are %q (%v), want %q", names, err, want)
	}
}

// An upload that announces more than the free space is refused at once, and not when the disk is
// full.
func TestServeUploadThatDoesNotFit(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, childOptions{}, dir, "--upload", "create", "--max-upload", "9223372036854775807")
	raw := c.dial()
	raw.send("\x00\x02image\x00octet\x00tsize\x009223372036854775806\x00")
	if got := raw.receive(); got != "\x00\x05\x00\x03no space left on the server\x00" {
		t.Errorf("an upload of 8 EiB: %q", got)
	}
	c.wantPut("small", "fits", 0)
	c.stop()
}
