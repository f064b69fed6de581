//go:build linux || darwin

package audit

import (
	"bytes"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A full disk costs lines, but leaves no partial ones. When there is room again, the file says how
// many are missing.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, said := open(t, path)
	l.write(event("1")) // the writing goroutine is idle
	whileFull(t, path, func() {
		for _, name := range []string{"2", "3", "4"} {
			l.write(event(name))
		}
	})
	wantLines(t, path, uploaded("1"))
	l.write(event("5"))
	if l.lost.Load() != 3 || l.written.Load() != 3 {
		t.Errorf("%d lines are lost, %d written", l.lost.Load(), l.written.Load())
	}
	l.Close()
	wantLines(t, path, uploaded("1"), line{Event: "lost", Lines: 3}, uploaded("5"))
	if strings.Count(said.String(), "cannot be written") != 1 || !strings.Contains(said.String(), "lines=3") {
		t.Error(said)
	}
}

// A line that a killed process has left incomplete stays separate from the next one, even if the
// disk is full in between.
func TestFullTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	const torn = `{"event":"uploa`
	if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, path)
	whileFull(t, path, func() { l.write(event("1")) })
	l.write(event("2"))
	l.Close()
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), torn+"\n{") {
		t.Errorf("%s, %v", text, err)
	}
}

// If another process has added lines to the file after a line that was written only in part, these
// lines stay.
func TestCutBesideAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, _ := open(t, path)
	l.write(event("1"))
	wantLines(t, path, uploaded("1"))
	other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const theirs = `{"event":"uploaded","file":"theirs"}` + "\n"
	if _, err := other.WriteString(theirs); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cut(5); err == nil {
		t.Error("lines were removed that another process has written")
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file has %q, %v", after, err)
	}
	l.Close()
}

// whileFull calls do while a file may grow by only some bytes. The size limit for files simulates a
// full disk: a write stops there.
func whileFull(t *testing.T, path string, do func()) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGXFSZ)
	defer signal.Stop(signals)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	full := limit
	full.Cur = uint64(info.Size()) + 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	do()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
}
