//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Like cat(1), cat ends silently when its reader has gone.
func TestCatPipe(t *testing.T) {
	w := startWeb(t, map[string]string{"a": strings.Repeat("x", 1<<20)})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"cat"}, {"cat", "--offset", "1"}} {
		r, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		var said bytes.Buffer
		cmd := exec.Command(exe, append(args, w.URL+"/a")...)
		cmd.Env = append(os.Environ(), asHaul+"=1")
		cmd.Stdout, cmd.Stderr = out, &said
		err = cmd.Run()
		_ = out.Close()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || status.Signal() != syscall.SIGPIPE || said.Len() > 0 {
			t.Errorf("haul %q: %v, %q", args, err, said.String())
		}
	}
}
