//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// asSSH makes this test binary behave as ssh. It logs in with the key at asSSHKey, and records its
// process ID and arguments in the directory asSSH. The first argument says how it behaves.
const asSSH, asSSHKey, asSSHServer = "HAUL_TEST_AS_SSH", "HAUL_TEST_SSH_KEY", "HAUL_TEST_SSH_SERVER"

func init() {
	if dir := os.Getenv(asSSH); dir != "" {
		runSSH(dir)
	}
}

// runSSH is the main function of a process that behaves as ssh.
func runSSH(dir string) {
	note := filepath.Join(dir, strconv.Itoa(os.Getpid()))
	if os.WriteFile(note+".new", []byte(strings.Join(os.Args[2:], "\n")), 0o600) != nil || os.Rename(note+".new", note) != nil {
		os.Exit(1)
	}
	switch further := strings.Contains(strings.Join(os.Args, " "), "BatchMode=yes"); os.Args[1] {
	case "noisy":
		fmt.Println("Welcome to the lab")
	case "single":
		if further {
			fmt.Fprintln(os.Stderr, "mux_client_request_session: session request failed: Session open refused by peer")
			os.Exit(255)
		}
	case "asking":
		time.Sleep(time.Hour)
	case "deaf":
		signal.Ignore(syscall.SIGHUP)
		time.Sleep(time.Hour)
	}
	if err := serveSSH(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(255)
	}
	os.Exit(0)
}

func serveSSH() error {
	b, err := os.ReadFile(os.Getenv(asSSHKey))
	if err != nil {
		return err
	}
	key, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return err
	}
	c, err := ssh.Dial("tcp", os.Getenv(asSSHServer), &ssh.ClientConfig{
		User: "me", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		return err
	}
	ch, requests, err := c.OpenChannel("session", nil)
	if err != nil {
		return err
	}
	go ssh.DiscardRequests(requests)
	if _, err := ch.SendRequest("subsystem", false, ssh.Marshal(struct{ Name string }{"sftp"})); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(ch, os.Stdin)
		_ = ch.CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, ch)
	return err
}

// An sshLab is a lab that is reached through a program that behaves as ssh.
type sshLab struct {
	*lab
	notes string // path of a directory
}

func startSSHLab(t *testing.T, files map[string]string) *sshLab {
	t.Helper()
	return &sshLab{startLab(t, files), t.TempDir()}
}

// flag returns the flag --ssh for this program.
func (l *sshLab) flag(behaves string) string {
	exe, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	return fmt.Sprintf(`--ssh=env %s="%s" %s='%s' %s=%s "%s" %s`, asSSH, l.notes, asSSHKey, l.key, asSSHServer, l.addr, exe, behaves)
}

// started returns the IDs of all started processes, and the arguments of the last.
func (l *sshLab) started() (pids []int, args string) {
	l.t.Helper()
	entries, err := os.ReadDir(l.notes)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
			b, err := os.ReadFile(filepath.Join(l.notes, e.Name()))
			if err != nil {
				l.t.Fatal(err)
			}
			args = strings.ReplaceAll(string(b), "\n", " ")
		}
	}
	return pids, args
}

// await waits for the first process.
func (l *sshLab) await() int {
	l.t.Helper()
	var pids []int
	eventually(l.t, "the program starts", func() bool { pids, _ = l.started(); return len(pids) > 0 })
	return pids[0]
}

// wantEnded checks that n processes were started, and that all have ended.
func (l *sshLab) wantEnded(n int) {
	l.t.Helper()
	pids, _ := l.started()
	if len(pids) != n {
		l.t.Errorf("%d processes, want %d", len(pids), n)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			l.t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

// All commands work over a program such as ssh. It receives the values of the flags, and no process
// is left behind.
func TestSSHCommand(t *testing.T) {
	t.Parallel()
	l := startSSHLab(t, map[string]string{"f": "content", "dir/a": "1", "dir/b": "2"})
	here := t.TempDir()
	must := func(args ...string) string {
		t.Helper()
		code, out, msg := haul(t, append([]string{args[0], l.flag("plain")}, args[1:]...)...)
		if code != 0 {
			t.Fatalf("haul %q: exit code %d, %s", args, code, msg)
		}
		return out
	}
	if out := must("get", "-P", "22", "-i", "key", "-J", "jump", "-F", "none", "-o", "Compression=yes", "--batch", "-q", "who@[::1]:f", "-"); out != "content" {
		t.Errorf("get: %q", out)
	}
	want := "-p 22 -l who -J jump -F none -i key -o Compression=yes -o BatchMode=yes -o LogLevel=ERROR -o ForwardX11=no -o ForwardAgent=no" +
		" -o ClearAllForwardings=yes -o PermitLocalCommand=no -o RemoteCommand=none -o RequestTTY=no -s -- ::1 sftp"
	if _, args := l.started(); args != want {
		t.Errorf("the program got %s\nwant %s", args, want)
	}
	must("get", "-r", "lab:dir", here)
	wantFile(t, filepath.Join(here, "dir", "b"), "2")
	must("put", "-r", filepath.Join(here, "dir"), "lab:copy")
	wantFile(t, filepath.Join(l.dir, "copy", "a"), "1")
	must("mv", "lab:copy/a", "lab:copy/c")
	must("mkdir", "lab:new")
	must("rm", "lab:copy/b")
	if out := must("ls", "lab:copy"); out != "c\n" {
		t.Errorf("ls: %q", out)
	}
	if out := must("stat", "lab:f") + must("df", "lab:"); !strings.Contains(out, "7") {
		t.Errorf("stat and df: %q", out)
	}
	if out := must("probe", "lab:f"); out != "7\n" {
		t.Errorf("probe: %q", out)
	}
	l.wantEnded(10)
}

// If the program is killed in the middle of a copy, it is replaced. If that fails, the copy fails,
// and leaves no partial file and no process behind.
func TestSSHCommandKilled(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 1<<18)
	for _, behaves := range []string{"plain", "single"} {
		for _, command := range []string{"get", "put"} {
			t.Run(behaves+" "+command, func(t *testing.T) {
				t.Parallel()
				l := startSSHLab(t, nil)
				here := t.TempDir()
				from, to := here, l.dir
				args := []string{filepath.Join(here, "big"), "lab:"}
				if command == "get" {
					from, to = l.dir, here
					args = []string{"lab:big", here}
				}
				writeFile(t, filepath.Join(from, "big"), content)
				c := runChild(t, childOptions{}, append([]string{command, l.flag(behaves), "--limit", "8M"}, args...)...)
				awaitHidden(t, to, "", func(b []byte) bool { return bytes.ContainsRune(b, 'f') })
				_ = syscall.Kill(l.await(), syscall.SIGKILL)
				if behaves == "plain" {
					c.wantExit(0)
					wantFile(t, filepath.Join(to, "big"), content)
				} else {
					c.wantExit(exitNoAnswer)
					c.await("connection lost")
					// The server is unreachable now, so a temporary file may stay on it until a later put
					// removes the file.
					if left, _ := filepath.Glob(filepath.Join(to, "*")); len(left) > 0 && (command == "get" || filepath.Base(left[0]) == "big") {
						t.Errorf("left behind: %q", left)
					}
				}
				pids, _ := l.started()
				l.wantEnded(max(len(pids), 2))
			})
		}
	}
}

// Signals also end the program, whatever it is doing. The message names the signal even if the
// terminal has sent it to the program as well.
func TestSSHCommandInterrupted(t *testing.T) {
	for _, test := range []struct {
		behaves string
		send    func(haul int)
	}{
		{"asking", func(haul int) { _ = syscall.Kill(-haul, syscall.SIGINT) }}, // as a terminal does
		{"asking", func(haul int) { _ = syscall.Kill(haul, syscall.SIGTERM) }},
		{"deaf", func(haul int) { _ = syscall.Kill(haul, syscall.SIGTERM) }},
		{"plain", func(haul int) { _ = syscall.Kill(-haul, syscall.SIGINT) }},
		{"plain", func(haul int) { _ = syscall.Kill(haul, syscall.SIGTERM) }},
	} {
		t.Run(test.behaves, func(t *testing.T) {
			t.Parallel()
			l := startSSHLab(t, map[string]string{"big": strings.Repeat("0123456789abcdef", 1<<20)})
			here := t.TempDir()
			c := runChild(t, childOptions{attr: &syscall.SysProcAttr{Setpgid: true}}, "get", l.flag(test.behaves), "--limit", "8M", "lab:big", here)
			if l.await(); test.behaves == "plain" {
				awaitHidden(t, here, "", func(b []byte) bool { return bytes.ContainsRune(b, 'f') })
			}
			test.send(c.cmd.Process.Pid)
			c.wantExit(exitInterrupted)
			if said := c.await("interrupted"); strings.Contains(said, "exit code") || strings.Contains(said, "connection lost") {
				t.Errorf("it says %s", said)
			}
			if left, _ := filepath.Glob(filepath.Join(here, "*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			pids, _ := l.started()
			l.wantEnded(len(pids)) // haul may have begun to replace the first
		})
	}
}

// If a login shell prints text before the protocol, the error shows the text instead of a length of
// a gigabyte.
func TestSSHCommandNoise(t *testing.T) {
	l := startSSHLab(t, map[string]string{"f": "content"})
	if code, _, msg := haul(t, "get", l.flag("noisy"), "lab:f", "-"); code != exitNoAnswer || !strings.Contains(msg, `"Welcome to the lab"; if a startup file`) {
		t.Errorf("exit code %d, %s", code, msg)
	}
	l.wantEnded(1)
}
