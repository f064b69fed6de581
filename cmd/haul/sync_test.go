package main

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// treeOf returns the files below a directory with their content, as sorted NAME=CONTENT words, and
// the names of directories without files.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular():
			b, err := os.ReadFile(name)
			all = append(all, rel+"="+string(b))
			return err
		case d.IsDir():
			if list, err := os.ReadDir(name); err == nil && len(list) == 0 {
				all = append(all, rel+"/")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// writeTree creates files from NAME=CONTENT words. All have the same time.
func writeTree(t *testing.T, dir, files string) {
	t.Helper()
	for f := range strings.FieldsSeq(files) {
		name, content, _ := strings.Cut(f, "=")
		name = filepath.Join(dir, filepath.FromSlash(name))
		writeFile(t, name, content)
		if err := os.Chtimes(name, time.Time{}, time.Unix(1_600_000_000, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

// On a web server that lists no directories, haul cannot find the files.
func TestSyncUnlisted(t *testing.T) {
	l, here := startWeb(t, map[string]string{"to/old": "1"}), t.TempDir()
	writeTree(t, here, "a=1")
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
		}
		return strings.HasSuffix(r.URL.Path, "/")
	})
	code, _, msg := haul(t, "sync", "--delete", here, l.URL+"/to")
	if code == 0 || !strings.Contains(msg, "list what the target has") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(l.dir, "to", "a"), "1")
}

// If both directories are on one server, it copies the files itself.
func TestSyncOnOneServer(t *testing.T) {
	l := startLab(t, nil)
	big := strings.Repeat("0123456789abcdef", 200_000)
	writeTree(t, l.dir, "from/big="+big+" from/d/small=1 to/big=old")
	l.must("sync", "lab:from", "twin:to")
	if got := treeOf(t, filepath.Join(l.dir, "to")); got != "big="+big+" d/small=1" {
		t.Errorf("DEST has %.100s", got)
	}
	if n := l.server.Counters().Sent; n > int64(len(big))/10 {
		t.Errorf("the server sent %d bytes of files", n)
	}
}
