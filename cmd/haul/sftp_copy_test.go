package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// wantTree checks that a directory has exactly these files.
func wantTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		rel = filepath.ToSlash(rel)
		found = append(found, rel)
		if content, ok := files[rel]; ok {
			wantFile(t, name, content)
		} else {
			t.Errorf("%s is too much", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if !slices.Contains(found, name) {
			t.Errorf("%s is missing in %s", name, dir)
		}
	}
}

// A copy to standard output is no faster than --limit.
func TestSFTPStreamLimit(t *testing.T) {
	l := startLab(t, map[string]string{"f": strings.Repeat("x", 300_000)})
	began := time.Now()
	if out := l.must("get", "--limit", "1MB", "lab:f", "-"); len(out) != 300_000 {
		t.Errorf("%d bytes", len(out))
	}
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("300 kB at 1 MB/s took %v", took)
	}
}

// An interrupted copy leaves no partial file under a final name, reports what is kept, and resumes
// there with --continue.
func TestSFTPInterrupted(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	for _, flag := range []string{"--fsync", "--continue"} {
		here := t.TempDir()
		l := startLab(t, map[string]string{"big": string(content)})
		ctx, cancel := context.WithCancel(t.Context())
		var errs lockedBuffer
		cmd := newRoot()
		cmd.SetArgs(l.args("get", flag, "--limit", "512k", "lab:big", here))
		cmd.SetErr(&errs)
		ended := make(chan error, 1)
		go func() { ended <- cmd.ExecuteContext(ctx) }()
		awaitHidden(t, here, "", func(b []byte) bool { return bytes.HasPrefix(b, content[:1<<10]) })
		cancel()
		err := <-ended
		if exitCode(err) != exitInterrupted {
			t.Errorf("%s: exit code %d, %v", flag, exitCode(err), err)
		}
		says, left := "with --continue they would have been kept", 0
		if flag == "--continue" {
			says, left = "the same command resumes there", 1
		}
		if !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: it does not say %q: %v", flag, says, err)
		}
		if _, err := os.Stat(filepath.Join(here, "big")); err == nil {
			t.Errorf("%s: it has its name, and is not whole", flag)
		}
		parts, _ := filepath.Glob(filepath.Join(here, ".haul*"))
		if min(len(parts), 1) != left {
			t.Errorf("%s: left behind: %q", flag, parts)
		}
		code, _, msg := l.haul("get", "--continue", "lab:big", here)
		if code != 0 || strings.Contains(msg, "were there before") != (left == 1) {
			t.Errorf("%s: the next run: exit code %d, %s", flag, code, msg)
		}
		wantTree(t, here, map[string]string{"big": string(content)})
	}
}

// awaitHidden waits until the function `enough` returns true for the content of a temporary file in
// a directory. The name of the file ends in `end`.
func awaitHidden(t *testing.T, dir, end string, enough func([]byte) bool) {
	t.Helper()
	for late := time.Now().Add(labPatience); time.Now().Before(late); time.Sleep(2 * time.Millisecond) {
		names, _ := filepath.Glob(filepath.Join(dir, ".haul*"+end))
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil && enough(b) {
				return
			}
		}
	}
	t.Fatal("nothing comes")
}
