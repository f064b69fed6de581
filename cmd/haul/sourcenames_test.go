package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A directory among files is an error without -r, for put as for get, and the
// files are copied.
func TestDirectoryAmongFiles(t *testing.T) {
	l := startLab(t, map[string]string{"f": "f", "tree/t": "t"})
	here := t.TempDir()
	file, tree := filepath.Join(here, "a.bin"), filepath.Join(here, "tree")
	writeFile(t, file, "a")
	writeFile(t, filepath.Join(tree, "t"), "t")
	code, _, msg := l.haul("put", file, tree, "lab:zz")
	if code != exitFailed || !strings.Contains(msg, "put "+tree+": is a directory") || !strings.Contains(msg, "(use -r)") || !strings.Contains(msg, "1 file, 1 B") || !strings.Contains(msg, "; 1 failed") {
		t.Errorf("put: exit code %d, %s", code, msg)
	}
	wantTree(t, filepath.Join(l.dir, "zz"), map[string]string{"a.bin": "a"})
	if code, _, msg := l.haul("put", tree, "lab:yy"); code != exitFailed || !strings.Contains(msg, "put "+tree+": is a directory") {
		t.Errorf("put of a directory alone: exit code %d, %s", code, msg)
	}
	to := t.TempDir()
	code, _, msg = l.haul("get", "lab:f", "lab:tree", to)
	if code != exitFailed || !strings.Contains(msg, "get lab:tree: is a directory") || !strings.Contains(msg, "1 file, 1 B") {
		t.Errorf("get: exit code %d, %s", code, msg)
	}
	wantTree(t, to, map[string]string{"f": "f"})
}

// Errors name what was typed, not what it is called in a tree.
func TestSourcesAsTyped(t *testing.T) {
	l := startLab(t, map[string]string{"a/x": "x", "b/x": "x"})
	to := t.TempDir()
	writeFile(t, filepath.Join(to, "a", "x", "in the way"), "") // where a file is to be
	long := filepath.Join(to, strings.Repeat("n", 300))         // no file can have this name
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"get", "lab:", to}, "get lab:: is a directory"},
		{[]string{"get", l.url("/"), to}, "get " + l.url("/") + ": is a directory"},
		{[]string{"get", "lab:b/x", "lab:nope", to}, "get lab:nope: "},
		{[]string{"get", "lab:b/x", l.url("/~/no%20pe"), to}, "get " + l.url("/~/no%20pe") + ": "},
		{[]string{"get", "-r", "lab:a", "lab:b", to}, "get lab:a/x: "},
		{[]string{"get", "-r", "lab:.", to}, "get lab:./a/x: "},
		{[]string{"get", "-r", l.url("/a"), to}, "get " + l.url("/a/x") + ": "},
		{[]string{"get", "lab:nope*", to}, "get lab:nope*: "},
		{[]string{"get", "lab:b/x", long}, "stat " + long + ": "},
	} {
		if code, _, msg := l.haul(c.args...); code == 0 || !strings.Contains(msg, c.says) {
			t.Errorf("haul %q: exit code %d, no %q: %s", c.args, code, c.says, msg)
		}
	}
	from := t.TempDir()
	for _, d := range []string{"a", "b"} {
		writeFile(t, filepath.Join(from, d, "x"), "x")
	}
	writeFile(t, filepath.Join(l.dir, "to", "b", "x", "in the way"), "")
	a, b := filepath.Join(from, "a"), filepath.Join(from, "b")
	if code, _, msg := l.haul("put", "-r", a, b, "lab:to"); code == 0 || !strings.Contains(msg, "put "+filepath.Join(b, "x")+": ") {
		t.Errorf("put: exit code %d, %s", code, msg)
	}
}
