package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A map must be a regular file of limited size.
func TestMapIsAFile(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	writeFile(t, large, strings.Repeat("#", 2<<20))
	for _, path := range []string{dir, large, "/dev/zero", filepath.Join(dir, "none")} {
		code, _, message := haul(t, "map", "test", path, "x")
		if code != exitLocal {
			t.Errorf("%s: exit code %d, %s", path, code, message)
		}
	}
	escape := filepath.Join(dir, "escape")
	writeFile(t, escape, "r ^(.*)$ ../out/\\1\n")
	if code, out, _ := haul(t, "map", "test", escape, "x"); code == 0 || !strings.Contains(out, "leads out of the root") {
		t.Errorf("a map that leads out: exit code %d, %s", code, out)
	}
}
