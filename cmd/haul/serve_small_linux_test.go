package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A small file stays open for the next TFTP client, and a file that replaces it is served at once.
func TestServeSmallFiles(t *testing.T) {
	dir := bigDir(t)
	content := strings.Repeat("x", 3*512+1)
	c := startChild(t, childOptions{}, dir)
	// A file that has just been created is not kept open.
	eventually(t, "the file stays open", func() bool {
		c.wantGet("kernel", content)
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); to == filepath.Join(dir, "kernel") {
				return true
			}
		}
		return false
	})
	next := filepath.Join(dir, "next")
	writeFile(t, next, "new")
	if err := os.Rename(next, filepath.Join(dir, "kernel")); err != nil {
		t.Fatal(err)
	}
	c.wantGet("kernel", "new")
	c.stop()
}
