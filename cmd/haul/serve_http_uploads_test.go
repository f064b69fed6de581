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
