package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/tftp/transfer"
	"golang.org/x/sys/unix"
)

// needRoot skips a test that needs root.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it takes root to become another user")
	}
}

// startSettled starts a server that gives up all rights that it can. As root it also becomes
// nobody.
func startSettled(t *testing.T, args ...string) *child {
	t.Helper()
	if os.Geteuid() == 0 {
		args = append(args, "--user", fmt.Sprintf("%d:%d", nobody, nobody))
	}
	return startChild(t, childOptions{env: []string{peekVar + "=/etc/passwd"}}, args...)
}

// wantSettled checks, once a request has been answered, that the kernel denies the server
// everything it does not need.
func (c *child) wantSettled() {
	c.t.Helper()
	c.signal(syscall.SIGUSR1)
	said := c.await("peek: ", ".\n")
	denied := "peek: reading: open /etc/passwd: permission denied; running: fork/exec /bin/sh: permission denied."
	switch {
	case strings.Contains(said, "msg=confined by=\"Landlock not available"):
		if !strings.Contains(said, "peek: reading: done") {
			c.t.Error("not confined, and yet cannot read /etc/passwd")
		}
	case !strings.Contains(said, `msg=confined by="Landlock ABI`):
		c.t.Error("no line about confinement")
	case !strings.Contains(said, denied):
		c.t.Errorf("want %q", denied)
	}
	if os.Geteuid() == 0 {
		wantThreads(c.t, c.cmd.Process.Pid, nobody, nobody, "")
	}
}

// wantThreads checks the kernel's status of each thread of a process.
func wantThreads(t *testing.T, pid, uid, gid int, groups string) {
	t.Helper()
	const none = "0000000000000000"
	want := map[string]string{
		"Uid": strings.TrimSpace(strings.Repeat(fmt.Sprint(uid, " "), 4)), "Gid": strings.TrimSpace(strings.Repeat(fmt.Sprint(gid, " "), 4)),
		"Groups": groups, "NoNewPrivs": "1",
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none,
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("%d threads, %v: too few to prove anything", len(tasks), err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		for key, value := range want {
			if got := statusField(string(b), key); got != value {
				t.Errorf("%s: %s is %q, want %q", task, key, got, value)
			}
		}
	}
}

// statusField returns the value of a field in a status file, with single spaces.
func statusField(status, key string) string {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return "missing"
}

func TestServeUser(t *testing.T) {
	needRoot(t)
	entry, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := entry.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ user, uid, gid, groups string }{
		{"nobody", entry.Uid, entry.Gid, strings.Join(groups, " ")},
		{"65534:65534", "65534", "65534", ""},
		{"4711:4712", "4711", "4712", ""},
	} {
		t.Run(test.user, func(t *testing.T) {
			uid, err1 := strconv.Atoi(test.uid)
			gid, err2 := strconv.Atoi(test.gid)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			dir := servedDir(t, map[string]string{"kernel": "image"})
			if err := os.Chown(dir, uid, gid); err != nil {
				t.Fatal(err)
			}
			c := startChild(t, childOptions{}, "--user", test.user, "--upload", "create", dir)
			c.wantGet("kernel", "image")
			wantThreads(t, c.cmd.Process.Pid, uid, gid, test.groups)
			c.wantPut("log", "text", 0)
			wantFile(t, filepath.Join(dir, "log"), "text")
			wantOwner(t, filepath.Join(dir, "log"), uid, gid)
			wantThreads(t, c.cmd.Process.Pid, uid, gid, test.groups)
			if said := c.stop(); strings.Contains(said, "running as root") {
				t.Error("it complains of being root:\n", said)
			}
		})
	}
}

func wantOwner(t *testing.T, path string, uid, gid int) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if s := info.Sys().(*syscall.Stat_t); int(s.Uid) != uid || int(s.Gid) != gid {
		t.Errorf("%s belongs to %d:%d, want %d:%d", path, s.Uid, s.Gid, uid, gid)
	}
}

// Files that the user may not read are refused, and not served with root's rights.
func TestServeUserReadsAsUser(t *testing.T) {
	needRoot(t)
	dir := servedDir(t, map[string]string{"secret": "key"})
	if err := os.Chmod(filepath.Join(dir, "secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := startSettled(t, dir)
	c.wantNoGet("secret", exitRefused)
	c.wantSettled()
	c.stop()
}

// --user is an error at the start if haul is not root.
func TestServeUserWithoutRoot(t *testing.T) {
	needRoot(t)
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	dir := t.TempDir()
	openUp(t, dir)
	c := runChild(t, childOptions{attr: attr}, append([]string{"serve", "--user", "4712:4712", dir}, anyPort...)...)
	if said := c.wantExit(exitUsage); !strings.Contains(said, "start it as root") || strings.Contains(said, "serving") {
		t.Errorf("said %s", said)
	}
	c = startChild(t, childOptions{attr: attr}, "--user", "4711:4711", dir)
	c.wantNoGet("none", exitNotFound)
	wantThreads(t, c.cmd.Process.Pid, 4711, 4711, "")
	c.stop()
}

// openUp lets everybody enter a test's directory.
func openUp(t *testing.T, dir string) {
	t.Helper()
	for ; filepath.Base(filepath.Dir(dir)) != filepath.Base(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func needPrivilegedPorts(t *testing.T) {
	t.Helper()
	first, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(first))); err != nil || n <= transfer.Port {
		t.Skipf("here everybody may take port 69: ip_unprivileged_port_start is %q", first)
	}
}

// A server on a low port needs systemd's AmbientCapabilities=CAP_NET_BIND_SERVICE, or setcap.
func TestServeLowPort(t *testing.T) {
	needRoot(t)
	needPrivilegedPorts(t)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "kernel"), "image")
	openUp(t, dir)
	user := &syscall.Credential{Uid: 4711, Gid: 4711}
	// No other test uses this address.
	args := []string{"serve", "--tftp", "127.69.69.70:1", dir}

	said := runChild(t, childOptions{attr: &syscall.SysProcAttr{Credential: user}}, args...).wantExit(exitFailed)
	if !strings.Contains(said, "CAP_NET_BIND_SERVICE") || !strings.Contains(said, "--tftp") {
		t.Errorf("without the capability it said %s", said)
	}
	able := &syscall.SysProcAttr{Credential: user, AmbientCaps: []uintptr{unix.CAP_NET_BIND_SERVICE}}
	c := runChild(t, childOptions{attr: able, env: []string{peekVar + "=/etc/passwd"}}, args...)
	c.awaitURL()
	c.wantGet("kernel", "image")
	wantThreads(t, c.cmd.Process.Pid, 4711, 4711, "")
	c.stop()
}

// Port 69 is the default. Without the privilege, the server prints which port it uses instead.
func TestServeFallsBack(t *testing.T) {
	needRoot(t)
	needPrivilegedPorts(t)
	busy, err := net.ListenPacket("udp", ":6969")
	if err == nil { // otherwise another process uses port 6969, so haul cannot use it either
		defer busy.Close()
	}
	dir := t.TempDir()
	openUp(t, dir)
	attr := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
	said := runChild(t, childOptions{attr: attr}, "serve", dir).wantExit(exitFailed)
	for _, want := range []string{"no privilege for port 69, taking :6969", "another server has that port"} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q: %s", want, said)
		}
	}
}
