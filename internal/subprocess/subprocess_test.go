//go:build unix

package subprocess_test

import (
	"io"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/subprocess"
)

// Words are split as a shell splits them that expands nothing.
func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"":                                 nil,
		"  ssh\t-v \n":                     {"ssh", "-v"},
		`ssh -o 'A  b' "c d"e''`:           {"ssh", "-o", "A  b", "c de"},
		`a\ b \"c '\' "\$x\n\""`:           {"a b", `"c`, `\`, `$x\n"`},
		`'' ""`:                            {"", ""},
		`~ $HOME * # | ; && > `:            {"~", "$HOME", "*", "#", "|", ";", "&&", ">"},
		`C:\\Windows\\ssh.exe 'C:\ssh' \'`: {`C:\Windows\ssh.exe`, `C:\ssh`, "'"},
	} {
		if got, err := subprocess.Split(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{`'`, `a "b\"`, `a 'b"`, `a\`} {
		if got, err := subprocess.Split(line); err == nil {
			t.Errorf("%s is %q", line, got)
		}
	}
}

func start(t *testing.T, script string) *subprocess.Process {
	t.Helper()
	p, err := subprocess.Start(exec.Command("/bin/sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// A program ends with its connection: one that ends with its input does so by itself if it
// has the time, and others are hung up.
func TestClose(t *testing.T) {
	for script, grace := range map[string]time.Duration{
		"cat; exit 3":                         time.Minute,
		"exec sleep 100":                      0,
		"exec sleep 101":                      time.Millisecond,
		"trap 'exit 4' HUP; sleep 102 & wait": 0,
	} {
		p := start(t, script)
		p.SetGrace(grace)
		go func() { _, _ = io.Copy(io.Discard, p) }() // which Close ends
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-p.Done():
		default:
			t.Errorf("%s runs on", script)
		}
		if _, ok := p.Status(); ok {
			t.Errorf("%s ended by itself", script)
		}
		if _, err := p.Write([]byte("x")); err == nil {
			t.Errorf("%s: what is closed can be written to", script)
		}
	}
}

// How a program has ended by itself is in the errors of both directions.
func TestExplain(t *testing.T) {
	p := start(t, "exec 0<&-; echo said; exit 7")
	var how error
	p.Explain = func(err error) error { how = err; return io.ErrUnexpectedEOF }
	if b, err := io.ReadAll(p); string(b) != "said\n" || err != io.ErrUnexpectedEOF || how == nil || how.Error() != "exit status 7" {
		t.Errorf("read %q, %v: %v", b, err, how)
	}
	if _, err := p.Write([]byte("x")); err != io.ErrUnexpectedEOF {
		t.Errorf("write: %v", err)
	}
}
