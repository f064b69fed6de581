//go:build unix

package interop

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// haulTool is our command line.
var haulTool = toolMaker{"haul", func(t *testing.T, l login) *tool { return newHaulTool(t, haul(t), "--batch", "-F", l.sshConfig(t)) }}

// newHaulTool is a haul with flags that lead to the server of that name.
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

// TestSFTPCommands has our command line use every peer's server, and ours.
func TestSFTPCommands(t *testing.T) {
	for _, s := range append([]sftpServer{haulHidden}, sftpPeerServers...) {
		trade(t, haulTool, s)
	}
}

// A copy that was cut off resumes with --continue, both ways, even if the program
// itself was killed.
func TestSFTPContinue(t *testing.T) {
	for _, s := range []sftpServer{sshdInternal, haulHidden} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir, local := realDir(t), t.TempDir()
			l := s.start(t, dir)
			// Progress is recorded now and then, of uploads every 32 MiB.
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
				command := func(l login) []string {
					return append([]string{c.what, "--continue", "--batch", "-q", "-F", l.sshConfig(t)}, c.args...)
				}
				// begin begins it, and makes it end when it is ready to be. Should it be
				// through before, as the disk takes longer to note how far it is, that
				// is tried again more slowly.
				begin := func(ready func(w *wire) bool, end func(w *wire, cmd *exec.Cmd)) {
					t.Helper()
					for _, limit := range []string{"24M", "8M", "2M"} {
						w := newWire(t, l.addr, 0, 0)
						cmd := p.command(t.Context(), append(command(w.through(l)), "--limit", limit)...)
						if err := cmd.Start(); err != nil {
							t.Fatal(err)
						}
						ended := make(chan error, 1)
						go func() { ended <- cmd.Wait() }()
						for through := false; !through; {
							select {
							case err := <-ended:
								if err != nil {
									t.Fatalf("%s ended before it was made to: %v", c.what, err)
								}
								through = true
							case <-time.After(time.Millisecond):
								if !ready(w) {
									continue
								}
								if end(w, cmd); <-ended == nil {
									t.Errorf("%s ended well although it was made to end", c.what)
								}
								return
							}
						}
						if err := os.Remove(c.file); err != nil {
							t.Fatal(err)
						}
					}
					t.Fatalf("%s is through before anything is noted", c.what)
				}
				// Cut as soon as it is noted that much of it has come.
				begin(func(w *wire) bool { return w.moved.Load() > size/2 && noted(filepath.Dir(c.file)) }, func(w *wire, _ *exec.Cmd) {
					w.l.Close() // or it would continue over the next connection
					w.cut()
				})
				if _, err := os.Lstat(c.file); err == nil {
					t.Errorf("%s: half a file has its name", c.what)
				}
				// Killed a little later.
				begin(func(w *wire) bool { return w.moved.Load() > size/20 }, func(_ *wire, cmd *exec.Cmd) {
					_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				})
				w := newWire(t, l.addr, 0, 0)
				mustRun(t, p, "", command(w.through(l))...)
				wantFile(t, c.file, data)
				if n := w.moved.Load(); n > size*3/4 {
					t.Errorf("%s moved %d bytes of %d again", c.what, n, size)
				}
			}
			wantOnly(t, dir, "back", "there")
			wantOnly(t, local, "down", "up")
		})
	}
}

// noted reports whether a directory has a note of how much of a file has come:
// the store's of downloads, or the client's of uploads.
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

// Our client gets to a server behind another.
func TestSFTPJump(t *testing.T) {
	dir := realDir(t)
	write(t, filepath.Join(dir, "file"), content(300_000))
	jump := startSSHD(t, t.TempDir(), "AllowTcpForwarding yes")
	for _, s := range []sftpServer{sshdInternal, haulHidden} {
		l := s.start(t, dir)
		// The name is one that only the configuration knows, by which the jump host is asked.
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
		// The first setting counts: each host's own known_hosts would.
		b = bytes.Replace(b, []byte("UserKnownHostsFile "), []byte("# UserKnownHostsFile "), 1)
		write(t, config, b)
		down := filepath.Join(t.TempDir(), "down")
		mustRun(t, haul(t), "", "get", "--batch", "-q", "-F", config, "server:file", down)
		wantFile(t, down, content(300_000))
	}
}

// Sending again what is there already costs no more than to look.
func TestSFTPUnchanged(t *testing.T) {
	for _, s := range []sftpServer{sshdInternal, haulHidden} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir, local := realDir(t), t.TempDir()
			l := s.start(t, dir)
			for i := range 20 {
				file := write(t, fmt.Sprintf("%s/f%d", local, i), content(500_000+i))
				if err := os.Chtimes(file, then, then); err != nil {
					t.Fatal(err)
				}
			}
			send := func() int64 {
				w := newWire(t, l.addr, 0, 0)
				mustRun(t, haul(t), "", "put", "-r", "-p", "--unchanged", "--batch", "-q", "-F", w.through(l).sshConfig(t), local+"/.", "server:")
				return w.moved.Load()
			}
			send()
			if n := send(); n > 1<<20 {
				t.Errorf("sending it again moved %d bytes", n)
			}
			if err := os.Chtimes(filepath.Join(local, "f7"), then, then.Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if n := send(); n < 500_000 || n > 2<<20 {
				t.Errorf("sending what has changed, one file, moved %d bytes", n)
			}
			for i := range 20 {
				wantFile(t, fmt.Sprintf("%s/f%d", dir, i), content(500_000+i))
			}
		})
	}
}
