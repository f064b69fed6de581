package suite

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Leftovers of a killed run are removed; what a running one uses, and what others made, stays.
func TestSweep(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	names := map[string]bool{ // the value is whether they stay
		ownPrefix + strconv.Itoa(gone.Process.Pid) + "-123": false,
		ownName() + "-123":                        true,
		ownPrefix + "-1":                          true,
		ownPrefix + "x":                           true,
		ownPrefix + "0-1":                         true,
		"other-" + strconv.Itoa(gone.Process.Pid): true,
	}
	for name := range names {
		if err := os.MkdirAll(filepath.Join(dir, name, "served"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sweep(dir, os.RemoveAll)
	for name, stays := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: stays %v, want %v", name, err == nil, stays)
		}
	}
}
