package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// A check of the settings connects to nothing, so a source need not exist. A malformed URL is an
// error in the settings, wherever it occurs.
func TestSourcesChecked(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	file := filepath.Join(dir, "haul.toml")
	const away = "https://mirror.invalid/boot/"
	code, out, msg := haul(t, "serve", "--dry-run", away, dir, "--tftp", "127.0.0.1:0", "--cache", filepath.Join(dir, "cache"), "--cache-size", "1GB")
	if code != 0 || !strings.Contains(out, "would serve "+away) {
		t.Errorf("code %d: %s%s", code, out, msg)
	}
	servetest.WriteFile(t, file, "dirs = ['"+away+"']\ntftp.listen = '127.0.0.1:0'\n[files]\nroot = ['192.0.2.7=ftp://mirror.invalid/']\n")
	if code, out, msg = haul(t, "config", "check", file); code != exitUsage || !strings.Contains(msg, "haul.toml:4") || !strings.Contains(msg, "sftp://") {
		t.Errorf("code %d: %s%s", code, out, msg)
	}
	servetest.WriteFile(t, file, "dirs = ['"+away+"']\ntftp.listen = '127.0.0.1:0'\n[cache]\ndir = 'c'\nsize = '1MB'\n")
	if code, out, msg = haul(t, "config", "check", file); code != exitUsage || !strings.Contains(msg, "haul.toml:5") || !strings.Contains(msg, "64 MiB") {
		t.Errorf("code %d: %s%s", code, out, msg)
	}
	// A URL with a password is not shown.
	code, _, msg = haul(t, "serve", "--dry-run", dir, "--upload-dir", "https://anna:sesame@mirror.invalid/")
	if code != exitUsage || !strings.Contains(msg, "--upload-dir: a password") || strings.Contains(msg, "sesame") {
		t.Errorf("code %d: %s", code, msg)
	}
	// A user's root cannot be a part of a source.
	users := filepath.Join(dir, "users")
	if code, _, msg = haul(t, "user", "add", "anna", "--users", users, "--root", "anna", "--key", keyLine(t)); code != 0 {
		t.Fatal(msg)
	}
	code, _, msg = haul(t, "serve", "--dry-run", away, "--sftp", "127.0.0.1:0", "--users", users)
	if code == 0 || !strings.Contains(msg, "user anna") || !strings.Contains(msg, "all of it only") {
		t.Errorf("code %d: %s", code, msg)
	}
}
