// Package servetest provides helpers that the tests of the server share with the tests of the
// command line.
package servetest

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a test waits for an event that has to occur. Only a failing test waits
// that long.
const Patience = time.Minute

// Eventually waits until the function `is` returns true. If that takes longer than Patience, the
// test fails with a message that contains `what`, a description of the condition.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	pause := time.Millisecond
	for deadline := time.Now().Add(Patience); !is(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		pause = min(2*pause, 16*time.Millisecond)
	}
}

// AwaitRefused waits until nothing listens at a TCP address.
func AwaitRefused(t *testing.T, addr string) {
	t.Helper()
	Eventually(t, "connections to "+addr+" are refused", func() bool {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return true
		}
		_ = c.Close()
		return false
	})
}

// WriteFile writes a file, and creates its directories.
func WriteFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// WantFile checks the content of a file.
func WantFile(t *testing.T, path, content string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != content {
		t.Errorf("%s has %d bytes, want %d, or differs", path, len(got), len(content))
	}
}

// A Buffer collects written data. Several goroutines may write and read it at the same time.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns the data that has been written so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// WriteProgram writes a program that a test runs. While it writes, this process starts no other
// process. Otherwise a process that another test starts at that time would hold the file open for
// writing until it executes its own program, and such a file cannot be executed.
func WriteProgram(t *testing.T, file, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
}
