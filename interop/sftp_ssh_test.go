//go:build unix

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// overSSH returns haul, with the flags that make it run OpenSSH's ssh, and a file that lists each
// of these processes. Further lines are added to the configuration.
func overSSH(t *testing.T, l login, config ...string) (p program, flags []string, pids string) {
	t.Helper()
	ssh := findOpenSSH(t, "ssh")
	p = haul(t)
	p.env = append(p.env, ssh.env...)
	pids = filepath.Join(t.TempDir(), "pids")
	command := fmt.Sprintf(`--ssh=/bin/sh -c 'echo $$ >> "$0" && exec "$@"' '%s' '%s'`, pids, ssh.path)
	return p, []string{command, "-F", l.sshConfig(t, config...)}, pids
}

// shared returns settings that make ssh processes share a connection, which ends with the test.
func shared(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	ssh := findOpenSSH(t, "ssh")
	t.Cleanup(func() {
		// The program may have ended with sshd.
		_ = exec.Command(ssh.path, "-F", "none", "-o", "ControlPath="+dir+"/s", "-O", "exit", "server").Run()
	})
	return []string{"ControlMaster auto", "ControlPath " + dir + "/s", "ControlPersist 20"}
}

// wantNone checks that none of the processes in a file still runs, and returns how many there
// were.
func wantNone(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(b))
	for _, w := range words {
		if pid, err := strconv.Atoi(w); err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
			t.Errorf("process %s is left, %v", w, err)
		}
	}
	return len(words)
}

// TestSFTPOverSSH makes our command use servers through OpenSSH's ssh: files and trees, in both
// directions.
func TestSFTPOverSSH(t *testing.T) {
	maker := toolMaker{"haul --ssh", func(t *testing.T, l login) *tool {
		p, flags, pids := overSSH(t, l)
		t.Cleanup(func() { wantNone(t, pids) })
		return newHaulTool(t, p, flags...)
	}}
	trade(t, maker, sshdInternal, "tree", "missing")
	trade(t, maker, haulHidden, "sizes", "list")
}

// With ControlMaster all commands, and all sessions, share one login. Sessions that the server
// does not permit are left out.
func TestSFTPOverSharedSSH(t *testing.T) {
	t.Parallel()
	dir, local := realDir(t), t.TempDir()
	const size = 80 << 20
	data := content(size)
	write(t, filepath.Join(dir, "there"), data)
	l, d := startSSHDAnd(t, dir, "Subsystem sftp internal-sftp", "MaxSessions 3")
	w := newWire(t, l.addr, 5*time.Millisecond) // far enough for several sessions
	control := shared(t)
	p, flags, pids := overSSH(t, w.through(l), control...)
	down := filepath.Join(local, "down")
	mustRun(t, p, "", append([]string{"ls"}, append(flags, "server:")...)...)
	mustRun(t, p, "", append([]string{"get", "-q"}, append(flags, "server:there", down)...)...)
	wantFile(t, down, data)
	if n := wantNone(t, pids); n < 4 {
		t.Errorf("%d processes: one for ls, and for get no more than two", n)
	}
	// ssh makes its own connection when the shared one has no more room.
	logins, sessions := strings.Count(d.said(1000), "Accepted publickey"), strings.Count(d.said(1000), "subsystem 'sftp'")
	if logins >= sessions || sessions < 4 {
		t.Errorf("%d logins, %d sessions", logins, sessions)
	}
}
