//go:build unix

package interop

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// haulTool is our own command.
var haulTool = toolMaker{"haul", func(t *testing.T, l login) *tool { return newHaulTool(t, haul(t), "--batch", "-F", l.sshConfig(t)) }}

// newHaulTool returns haul with flags that lead to the server named "server".
func newHaulTool(t *testing.T, p program, flags ...string) *tool {
	args := func(command string, more ...string) []string {
		return append(append([]string{command}, flags...), more...)
	}
	return &tool{
		name: "haul", times: true,
		get: func(t *testing.T, remote, local string) { mustRun(t, p, "", args("get", "server:"+remote, local)...) },
		put: func(t *testing.T, remote, local string) { mustRun(t, p, "", args("put", local, "server:"+remote)...) },
		getTree: func(t *testing.T, remote, local string) {
			mustRun(t, p, "", args("get", "-r", "-p", "--links", "keep", "server:"+remote+"/.", local)...)
		},
		putTree: func(t *testing.T, remote, local string) {
			mustRun(t, p, "", args("put", "-r", "-p", "--links", "keep", "--verify", local+"/.", "server:"+remote)...)
		},
		list: func(t *testing.T, remote string) []string {
			return strings.Fields(mustRun(t, p, "", args("ls", "server:"+remote)...))
		},
		fails: func(t *testing.T, remote, local string) error {
			_, err := runTool(t, p, "", args("get", "server:"+remote, local)...)
			return err
		},
	}
}

// TestSFTPCommands tests our command with every peer's server, and ours.
func TestSFTPCommands(t *testing.T) {
	for _, s := range append([]sftpServer{haulHidden}, sftpPeerServers...) {
		trade(t, haulTool, s)
	}
}

// A copy that was killed resumes with --continue from and to other servers, in both directions.
func TestSFTPContinue(t *testing.T) {
	dir, local := realDir(t), t.TempDir()
	l := sshdInternal.start(t, dir)
	// Progress is recorded at intervals, for uploads every 32 MiB.
	const size = 80 << 20
	data := content(size)
	write(t, filepath.Join(dir, "there"), data)
	up := write(t, filepath.Join(local, "up"), data)
	down := filepath.Join(local, "down")
	p := haul(t)
	for _, c := range []struct {
		what, file string
		args       []string
	}{
		{"get", down, []string{"server:there", down}},
		{"put", filepath.Join(dir, "back"), []string{up, "server:back"}},
	} {
		command := func(w *wire, more ...string) []string {
			return append(append([]string{c.what, "--continue", "--batch", "-q", "-F", w.through(l).sshConfig(t)}, c.args...), more...)
		}
		// The limit prevents the copy from finishing before the kill.
		w := newWire(t, l.addr, 0)
		cmd := p.command(t.Context(), command(w, "--limit", "4M")...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// A record is at most 5 s old, which is a quarter of the file at this limit.
		await(t, "a record of half of the file", func() bool { return w.moved.Load() > size*3/4 && noted(filepath.Dir(c.file)) })
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if err := cmd.Wait(); err == nil {
			t.Fatalf("%s ended before it was killed", c.what)
		}
		if _, err := os.Lstat(c.file); err == nil {
			t.Errorf("%s: half a file has its name", c.what)
		}
		w = newWire(t, l.addr, 0)
		mustRun(t, p, "", command(w)...)
		wantFile(t, c.file, data)
		if n := w.moved.Load(); n > size*3/4 {
			t.Errorf("%s moved %d bytes of %d again", c.what, n, size)
		}
	}
	wantOnly(t, dir, "back", "there")
	wantOnly(t, local, "down", "up")
}

// noted reports whether a directory has a record of the progress of a file: the store's
// checkpoint for downloads, or the client's record for uploads.
func noted(dir string) bool {
	for _, pattern := range []string{".haul-*.mark", ".haul-*.record"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, name := range found {
			if fi, err := os.Stat(name); err == nil && fi.Size() > 0 {
				return true
			}
		}
	}
	return false
}

// Our client reaches a server behind a jump host.
func TestSFTPJump(t *testing.T) {
	dir := realDir(t)
	write(t, filepath.Join(dir, "file"), content(300_000))
	jump := startSSHD(t, t.TempDir(), "AllowTcpForwarding yes")
	for _, s := range []sftpServer{sshdInternal, haulHidden} {
		l := s.start(t, dir)
		// Only the configuration knows this name, with which the jump host is asked.
		known, err := os.ReadFile(jump.known(t))
		if err != nil {
			t.Fatal(err)
		}
		both, err := os.ReadFile(l.known(t))
		if err != nil {
			t.Fatal(err)
		}
		file := write(t, filepath.Join(t.TempDir(), "known_hosts"), append(known, both...))
		config := l.sshConfig(t, "UserKnownHostsFile "+file, "ProxyJump jump", "Host jump", "HostName 127.0.0.1",
			"Port "+jump.port(), "User haul", "IdentityFile "+l.key, "UserKnownHostsFile "+file)
		b, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		// The first setting counts: so remove each host's own known_hosts.
		b = bytes.Replace(b, []byte("UserKnownHostsFile "), []byte("# UserKnownHostsFile "), 1)
		write(t, config, b)
		down := filepath.Join(t.TempDir(), "down")
		mustRun(t, haul(t), "", "get", "--batch", "-q", "-F", config, "server:file", down)
		wantFile(t, down, content(300_000))
	}
}
