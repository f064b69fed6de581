//go:build unix

package remote

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
	"github.com/haul-project/haul/sftp/sftpclient"
)

// connectByScript connects through a shell script in place of ssh.
func connectByScript(t *testing.T, script string, cfg Config) (stderr string, err error) {
	t.Helper()
	l, err := Parse("me@lab:f")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cfg.SSH.Command, cfg.Stderr, cfg.Say = []string{"/bin/sh", "-c", script}, &said, func(string) {}
	s := New(cfg)
	defer s.Close()
	_, err = s.Connect(t.Context(), l, Intent{})
	return said.String(), err
}

// Each way in which ssh fails has a failure kind, and a message with advice. ssh's own words are
// passed on, and not repeated.
func TestSSHCommandFails(t *testing.T) {
	for _, test := range []struct {
		script, want string
		kinds        []error
	}{
		{"echo 'me@lab: Permission denied (publickey,password).' >&2; exit 255",
			"connect to me@lab: sh: permission denied; name a key by -i FILE, another user by USER@HOST, or leave out --batch to be asked", []error{failure.Dial, openssh.ErrAuth}},
		{"echo 'Received disconnect from 192.0.2.1 port 22:2: Too many authentication failures' >&2; exit 255", "permission denied, too many times; name a key", []error{openssh.ErrAuth}},
		{"echo 'Host key verification failed.' >&2; exit 255", "the host key is not trusted; verify the fingerprint", []error{failure.Dial, openssh.ErrHostKey}},
		{"echo 'ssh: Could not resolve hostname lab: Name or service not known' >&2; exit 255", "the name has no address; check its spelling", []error{failure.Dial, unresolved}},
		{"echo 'subsystem request failed on channel 0' >&2; exit 255", "the server refuses the subsystem sftp; its configuration", []error{openssh.ErrRefused}},
		{"echo 'command-line: line 0: Bad configuration option: foo' >&2; exit 255", "an option is wrong", []error{failure.Usage}},
		{"echo 'ssh: connect to host lab port 22: Connection refused' >&2; exit 255", `sh has ended with exit code 255 (it says "ssh: connect to host lab port 22: Connection refused")`, []error{failure.Dial}},
		{"exec 2>&-; kill -9 $$", "sh has ended by a signal: killed", []error{failure.Dial}},
		{"exit 0", "sh has ended, and no server has answered", []error{failure.Dial}},
		{"echo 'This account is not available'; cat >/dev/null", `me@lab: begin SFTP session: SFTP protocol violated by the server: it sends text where SFTP begins: "This account is not available"`, []error{failure.Dial, sftpclient.ErrProtocol}},
		{"echo hi", `it sends text where SFTP begins: "hi"`, []error{failure.Dial, sftpclient.ErrProtocol}},
	} {
		t.Run(test.want, func(t *testing.T) {
			t.Parallel() // it waits for a signal that does not come
			stderr, err := connectByScript(t, test.script, Config{Batch: true})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Error(err)
			}
			for _, kind := range test.kinds {
				if !errors.Is(err, kind) {
					t.Errorf("it is no %v: %v", kind, err)
				}
			}
			if _, says, _ := strings.Cut(test.script, "echo '"); strings.Contains(says, ">&2") && !strings.Contains(stderr, says[:strings.Index(says, "'")]) {
				t.Errorf("on standard error is %q", stderr)
			}
		})
	}
}

// A program that hangs is killed when its time is over. If there is a user to ask, it may take
// longer.
func TestSSHCommandHangs(t *testing.T) {
	begin := time.Now()
	_, err := connectByScript(t, "exec sleep 1000", Config{Batch: true, Patience: Patience{Answer: 50 * time.Millisecond}})
	if !errors.Is(err, failure.Dial) || !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "connect to me@lab: sh has not logged in within 50ms") {
		t.Error(err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("after %v", took)
	}
	l, err := Parse("lab:f")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{SSH: SSHConfig{Command: []string{"/bin/sh", "-c", "exec sleep 1000"}}, Patience: Patience{Answer: time.Millisecond}, Say: func(string) {}})
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Connect(ctx, l, Intent{}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it ended before the context: %v", err)
	}
}

// A program may stop during a session, like ssh after the network vanishes. It is abandoned once the
// server has been silent for the allowed time. The request is then tried in further sessions, up to
// a maximum number. No program is left behind, although these programs react to no signal except
// SIGKILL.
func TestSSHCommandStops(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	// VERSION, and a STATUS that refuses to report the limits.
	const script = `echo $$ >> "$0"; printf '\0\0\0\5\2\0\0\0\3\0\0\0\21\145\0\0\0\1\0\0\0\10\0\0\0\0\0\0\0\0'; kill -STOP $$`
	l, err := Parse("lab:f")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{SSH: SSHConfig{Command: []string{"/bin/sh", "-c", script, pids}}, Patience: Patience{Stall: 50 * time.Millisecond}, Batch: true, Say: func(string) {}})
	c, err := s.Connect(t.Context(), l, Intent{})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, err = c.Stat(t.Context(), "f")
	if !errors.Is(err, sftpclient.ErrStalled) || !IsNoAnswer(err) || !strings.Contains(err.Error(), "server does not answer for") {
		t.Errorf("a request fails by %v", err)
	}
	s.Close()
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("it takes %v", took)
	}
	b, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	started := strings.Fields(string(b))
	for _, word := range started {
		if pid, err := strconv.Atoi(word); err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
			t.Errorf("process %s is left, %v", word, err)
		}
	}
	if len(started) < 2 {
		t.Errorf("%d processes were started", len(started))
	}
}

// A missing program is an error of this machine.
func TestSSHCommandMissing(t *testing.T) {
	for _, name := range []string{"haul-test-no-such-program", "/nonexistent/ssh"} {
		l, err := Parse("lab:f")
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(Config{SSH: SSHConfig{Command: []string{name}}}).Connect(t.Context(), l, Intent{})
		if !errors.Is(err, failure.Local) || !strings.Contains(err.Error(), "there is no program "+name+": install it") {
			t.Error(err)
		}
	}
}

// The end of the program's text is kept, in bounded memory.
func TestSSHCommandText(t *testing.T) {
	var text commandText
	for range 1000 {
		_, _ = text.Write(bytes.Repeat([]byte("x"), 1000))
	}
	_, _ = text.Write(append(bytes.Repeat([]byte("y"), 1<<20), "\nlast words\n\n"...))
	if len(text.text) > maxCommandText || cap(text.text) > 4*maxCommandText {
		t.Errorf("%d bytes, with room for %d", len(text.text), cap(text.text))
	}
	if err := text.explain("ssh", nil); !strings.Contains(err.Error(), `(it says "last words")`) {
		t.Error(err)
	}
}
