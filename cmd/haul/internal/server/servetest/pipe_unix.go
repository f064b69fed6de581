//go:build unix

package servetest

import (
	"syscall"
	"testing"
)

// MakePipe creates a named pipe.
func MakePipe(t *testing.T, path string) {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}
