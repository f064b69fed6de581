//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/haul-project/haul/tftp"
)

// If the reader of events has gone, the command ends, as with any other output, and no partial file
// has a name.
func TestJSONReaderGone(t *testing.T) {
	_, url := startServer(t, tftp.NoUploads, map[string]string{"a": "x"})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	defer w.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	local := filepath.Join(t.TempDir(), "a")
	cmd := exec.Command(exe, "get", "--json", url+"a", local)
	cmd.Env = append(os.Environ(), asHaul+"=1")
	cmd.Stdout = w
	ended, ok := errors.AsType[*exec.ExitError](cmd.Run())
	if !ok || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
		t.Errorf("the end: %v, want the signal of a closed pipe", ended)
	}
	if b, err := os.ReadFile(local); err == nil && string(b) != "x" {
		t.Errorf("the file has %q", b)
	}
}
