package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/users"
)

// twoEnds returns both ends of a new terminal: one for the test, and one for the program under test.
func twoEnds(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// shows reports whether a terminal shows typed text.
func shows(t *testing.T, terminal *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// A password is asked for twice and not shown. If the answers differ, nothing changes.
func TestUserPasswordTyped(t *testing.T) {
	for _, test := range []struct {
		second string
		code   int
		says   string
	}{
		{"correct horse", 0, "added alice"},
		{"correct house", exitFailed, "the two passwords differ"},
	} {
		ours, theirs := twoEnds(t)
		file := filepath.Join(t.TempDir(), "users")
		c := runChild(t, childOptions{stdin: theirs}, "user", "add", "alice", "--users", file)
		c.await("Password for alice: ")
		awaitNoEcho(t, theirs)
		fmt.Fprint(ours, "correct horse\n")
		c.await("The same again: ")
		awaitNoEcho(t, theirs)
		fmt.Fprint(ours, test.second+"\n")
		said := c.wantExit(test.code)
		if !strings.Contains(said, test.says) || strings.Contains(said, "correct") {
			t.Errorf("said %q, want %q", said, test.says)
		}
		if !shows(t, theirs) {
			t.Error("the terminal shows nothing any more")
		}
		d, err := users.Open(file)
		if test.code != 0 {
			if err == nil {
				t.Error("there is a users file")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Password(t.Context(), users.Attempt{}, "alice", []byte("correct horse")); err != nil {
			t.Error(err)
		}
	}
}

// awaitNoEcho waits until a terminal stops showing typed text.
func awaitNoEcho(t *testing.T, terminal *os.File) {
	t.Helper()
	for late := time.Now().Add(patience); shows(t, terminal); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the terminal shows what is typed")
		}
	}
}

// An interrupted command restores the terminal.
func TestUserPasswordInterrupted(t *testing.T) {
	_, theirs := twoEnds(t)
	c := runChild(t, childOptions{stdin: theirs}, "user", "add", "alice", "--users", filepath.Join(t.TempDir(), "users"))
	c.await("Password for alice: ")
	awaitNoEcho(t, theirs)
	c.signal(syscall.SIGINT)
	if said := c.wantExit(exitInterrupted); !strings.Contains(said, "interrupted") {
		t.Errorf("said %q", said)
	}
	if !shows(t, theirs) {
		t.Error("the terminal shows nothing any more")
	}
}
