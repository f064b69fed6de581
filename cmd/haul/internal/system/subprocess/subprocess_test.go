//go:build unix

package subprocess_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/system/subprocess"
)

// Words are split as by a shell without expansions.
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

// Close stops the program. A program that exits at the end of its input has the grace period to do
// so; any other program gets SIGHUP.
func TestClose(t *testing.T) {
	for script, grace := range map[string]time.Duration{
		"cat; exit 3":                         time.Minute,
		"exec sleep 100":                      0,
		"exec sleep 101":                      time.Millisecond,
		"trap 'exit 4' HUP; sleep 102 & wait": 0,
	} {
		p := start(t, script)
		p.SetGrace(grace)
		go func() { _, _ = io.Copy(io.Discard, p) }() // Close ends it
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

// If a program exits by itself, the errors of Read and Write say how.
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

// Ending a program with a group of its own also ends the processes that it has started, even
// through a shell.
func TestStartGroup(t *testing.T) {
	alive, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	cmd := exec.Command("/bin/sh", "-c", "sleep 1000 & echo; wait")
	cmd.ExtraFiles = []*os.File{theirs} // all of them have it open
	p, err := subprocess.StartGroup(cmd)
	_ = theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	_ = alive.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := alive.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a process is left: %v", err)
	}
}

// If a program cannot be started, the error names it and gives advice.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		mode fs.FileMode
		want string
	}{
		"plain":  {0o644, "permission denied; it has to be an executable file (chmod +x)"},
		"script": {0o755, "exec format error; a script has to begin with a line such as #!/bin/sh"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("exec ssh \"$@\"\n"), test.mode); err != nil {
			t.Fatal(err)
		}
		p, err := subprocess.Start(exec.Command(path))
		if p != nil || err == nil || err.Error() != "start "+path+": "+test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := subprocess.Start(exec.Command("/nonexistent/ssh")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a program that is missing: %v", err)
	}
}
