//go:build unix

package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// haulTool is our command line.
var haulTool = toolMaker{"haul", newHaulTool}

func newHaulTool(t *testing.T, l login) *tool {
	p := haul(t)
	flags := []string{"--batch", "-F", l.sshConfig(t)}
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

// What was cut off goes on with --continue where it was, both ways, and be it
// the program itself that is killed.
func TestSFTPContinue(t *testing.T) {
	for _, s := range []sftpServer{sshdInternal, haulHidden} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir, local := realDir(t), t.TempDir()
			l := s.start(t, dir)
			// What has come is noted now and then, of uploads every 32 MiB.
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
				w := newWire(t, l.addr, time.Millisecond, size*3/4)
				if out, err := runTool(t, p, "", command(w.through(l))...); err == nil {
					t.Fatalf("%s succeeded over a wire that was cut\n%s", c.what, out)
				}
				if _, err := os.Lstat(c.file); err == nil {
					t.Errorf("%s: half a file has its name", c.what)
				}
				// Killed in the middle.
				w = newWire(t, l.addr, 20*time.Millisecond, 0)
				cmd := p.command(t.Context(), command(w.through(l))...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				for w.moved.Load() < size/10 {
					select {
					case err := <-ended:
						t.Fatalf("%s ended before it was killed: %v", c.what, err)
					case <-time.After(time.Millisecond):
					}
				}
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				if err := <-ended; err == nil {
					t.Fatalf("%s ended well although it was killed", c.what)
				}
				w = newWire(t, l.addr, 0, 0)
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
