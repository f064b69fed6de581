//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// startPlainAuth runs "haul serve" with HTTP for alice, as behind a proxy.
func startPlainAuth(t *testing.T, args ...string) *httpChild {
	t.Helper()
	dir := servedDir(t, map[string]string{"kernel": "image"})
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("user alice\n"+hashed(t, "wonderland")), 0o600); err != nil {
		t.Fatal(err)
	}
	return startHTTP(t, append([]string{dir, "--http-auth", file, "--http-plain-auth"}, args...)...)
}

// Uploads of users have the same bound as others.
func TestServeHTTPMaxUploadOfUsers(t *testing.T) {
	s := startPlainAuth(t, "--max-upload", "4")
	const alice = "user: alice:wonderland"
	s.want(201, "*", "PUT /f", "1234", alice)
	s.want(413, "*", "PUT /g", "12345", alice)
	s.want(413, "*", "PUT /h", "1", alice, "Content-Range: bytes 0-0/5")
}
