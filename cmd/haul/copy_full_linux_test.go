package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// If the local disk is full, get reports it once, starts no further files, and leaves no partial
// file.
func TestGetToFullDisk(t *testing.T) {
	t.Parallel() // it waits most of the time
	needRoot(t)
	here := t.TempDir()
	if err := unix.Mount("haul-test", here, "tmpfs", 0, "size=1m,mode=0777"); err != nil {
		t.Skipf("no file system to fill: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(here, 0); err != nil {
			t.Error(err)
		}
	})
	const files, size = 1000, 10_000
	there := map[string]string{}
	for i := range files {
		there[fmt.Sprintf("d/%d", i)] = strings.Repeat("x", size)
	}
	sftpLab, webLab := startLab(t, there), startWeb(t, there)
	for i, args := range [][]string{
		sftpLab.args("get", "-r", "lab:d"), sftpLab.args("get", "-r", "--continue", "lab:d"), sftpLab.args("get", "-r", "--in-place", "lab:d"),
		{"get", "-r", webLab.URL + "/d"},
	} {
		to := filepath.Join(here, "copy")
		code, _, msg := haul(t, append(args, to)...)
		if code != exitLocal || strings.Count(msg, "no space left") != 1 || !strings.Contains(msg, " unfinished") || !strings.Contains(msg, "; 1 failed") {
			t.Errorf("%d: exit code %d, says %s", i, code, msg)
		}
		got, err := filepath.Glob(filepath.Join(to, "*"))
		if err != nil || len(got) == 0 || len(got) > 2*1024*1024/size {
			t.Errorf("%d: %d files are there, %v", i, len(got), err)
		}
		if left, _ := filepath.Glob(filepath.Join(to, ".haul-*.part")); len(left) > 0 {
			t.Errorf("%d: left behind: %q", i, left)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
	}
}
