package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// patternFiles are files for patterns to match.
func patternFiles() map[string]string {
	return map[string]string{
		"g/a.gz": "1", "g/.b.gz": "2", "g/s/c.gz": "3", "g/s/t/d.gz": "4", "g/s/t/e.txt": "5", "g/.h/f.gz": "6", "x.gz": "7",
	}
}

// globCases are patterns, and what they match.
var globCases = []struct {
	pattern string
	want    []string
}{
	{"g/*.gz", []string{"g/a.gz"}},
	{"g/.*.gz", []string{"g/.b.gz"}},
	{"g/**/*.gz", []string{"g/a.gz", "g/s/c.gz", "g/s/t/d.gz"}},
	{"**/c.gz", []string{"g/s/c.gz"}},
	{"*/s/c.g[a-z]", []string{"g/s/c.gz"}},
}

// A pattern means the same to each command and over each protocol.
func TestPatternsAreOne(t *testing.T) {
	for _, c := range globCases {
		left := patternFiles()
		fetched := map[string]string{}
		for _, name := range c.want {
			fetched[filepath.Base(name)] = left[name]
			delete(left, name)
		}
		list := strings.Join(c.want, "\n") + "\n"
		check := func(dir, at string, must func(...string) string) {
			t.Helper()
			if out := must("ls", at); out != list {
				t.Errorf("ls %s: %q, want %q", at, out, list)
			}
			to := t.TempDir()
			must("get", at, to)
			wantTree(t, to, fetched)
			if len(c.want) == 1 {
				if out := must("get", at, "-"); out != fetched[filepath.Base(c.want[0])] {
					t.Errorf("get %s -: %q", at, out)
				}
			}
			must("rm", at)
			wantTree(t, dir, left)
		}
		l := startLab(t, patternFiles())
		check(l.dir, "lab:"+c.pattern, l.must)
		w := startWeb(t, patternFiles())
		check(w.dir, w.URL+"/"+c.pattern, w.must)
		here := t.TempDir()
		for name, content := range patternFiles() {
			writeFile(t, filepath.Join(here, name), content)
		}
		l.must("put", filepath.Join(here, filepath.FromSlash(c.pattern)), "lab:new/")
		wantTree(t, filepath.Join(l.dir, "new"), fetched)
	}
	l := startLab(t, patternFiles())
	writeFile(t, filepath.Join(l.dir, "g", "s-"), "sorted before s/c.gz")
	l.must("rm", "-r", "lab:g/**") // of which some are in others
	if l.must("ls", "lab:g/") != "" {
		t.Error("something is left")
	}
	l = startLab(t, patternFiles())
	all := l.must("ls", l.url("/g/**/*.gz"))
	if all != "/g/a.gz\n/g/s/c.gz\n/g/s/t/d.gz\n" {
		t.Errorf("an absolute pattern: %q", all)
	}
}

// Of what a pattern matches, a directory is named in full and not sent; the rest is sent.
func TestPutPattern(t *testing.T) {
	l := startLab(t, nil)
	here := t.TempDir()
	for _, name := range []string{"f", ".hidden", "sub/f", "sub/.hidden"} {
		writeFile(t, filepath.Join(here, name), name)
	}
	code, _, msg := l.haul("put", filepath.Join(here, "*"), "lab:new/")
	if code != exitFailed || !strings.Contains(msg, "put "+filepath.Join(here, "sub")+": is a directory") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	wantTree(t, filepath.Join(l.dir, "new"), map[string]string{"f": "f"})
	if code, _, msg := l.haul("put", filepath.Join(here, "none*"), "lab:new/"); code == 0 || !strings.Contains(msg, "none*: no name matches") {
		t.Errorf("no match: exit code %d, %s", code, msg)
	}
	t.Chdir(here)
	l.must("put", "s*/*", "lab:rel/")
	wantTree(t, filepath.Join(l.dir, "rel"), map[string]string{"f": "sub/f"})
	t.Chdir(filepath.Join(here, "sub"))
	l.must("put", "../f*", "lab:up/")
	wantTree(t, filepath.Join(l.dir, "up"), map[string]string{"f": "f"})
}

// A device is refused, with what to do instead.
func TestPutDevice(t *testing.T) {
	l := startLab(t, nil)
	if code, _, msg := l.haul("put", os.DevNull, "lab:new"); code != exitLocal ||
		!strings.Contains(msg, "put "+os.DevNull+": not a regular file; use - for a stream") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	if left, err := os.ReadDir(l.dir); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "new" }) {
		t.Errorf("left: %v, %v", left, err)
	}
}
