//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What is served says nothing of the directory that uploads go to: a file that is
// served with the same size and time is sent all the same.
func TestServeHTTPUploadDirContinue(t *testing.T) {
	dir, uploads := servedDir(t, map[string]string{"st": "1"}), servedDir(t, nil)
	file := filepath.Join(t.TempDir(), "st")
	writeFile(t, file, "2")
	at := time.Unix(1_700_000_000, 0)
	for _, name := range []string{file, filepath.Join(dir, "st")} {
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	s := startHTTP(t, dir, "--upload", "overwrite", "--upload-dir", uploads)
	if code, _, msg := haul(t, "put", "--continue", file, s.at+"/st"); code != 0 {
		t.Errorf("exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(uploads, "st"), "2")
	wantFile(t, filepath.Join(dir, "st"), "1")
}

// Where uploads go elsewhere, it is there that a name may be taken, over HTTP as
// over TFTP.
func TestServeHTTPUploadDirCreate(t *testing.T) {
	dir, uploads := servedDir(t, map[string]string{"served": "old", "sub/f": "x"}), servedDir(t, nil)
	s := startHTTP(t, dir, "--tftp", "127.0.0.1:0", "--upload", "create", "--upload-dir", uploads)
	s.awaitURL()
	s.want(201, "created\n", "PUT /served", "by HTTP")
	s.want(201, "created\n", "PUT /sub", "a file")
	s.want(409, "*", "PUT /served", "again")
	s.want(409, "*", "PUT /served", "aga", "Content-Range: bytes 0-2/10")
	s.wantPut("served", "again", exitRefused)
	s.wantPut("other", "by TFTP", 0)
	s.want(409, "*", "PUT /other", "again")
	s.want(412, "*", "PUT /served", "again", "If-None-Match: *")
	s.want(200, "old", "GET /served", "")
	for name, want := range map[string]string{"served": "by HTTP", "sub": "a file", "other": "by TFTP"} {
		wantFile(t, filepath.Join(uploads, name), want)
	}
}

// Who may only upload can send a file in parts as well.
func TestServeHTTPUploadOnlyParts(t *testing.T) {
	dir, file := servedDir(t, nil), filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("user bob\n"+hashed(t, "builder")+"  access upload-only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startHTTP(t, dir, "--http-plain-auth", "--http-auth", file)
	const bob = "user: bob:builder"
	s.want(202, "*", "PUT /letter", "dear", bob, "Content-Range: bytes 0-3/8")
	s.want(403, "*", "GET /letter", "", bob)
	s.want(201, "*", "PUT /letter", " you", bob, "Content-Range: bytes 4-7/8")
	s.want(409, "*", "PUT /letter", "more", bob)
	wantFile(t, filepath.Join(dir, "letter"), "dear you")
}
