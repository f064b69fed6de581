//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// succeeded waits until a server has its nth successor, and returns the successor's process ID. If
// the test fails to end that process, it is killed.
func (c *child) succeeded(n int) (pid int) {
	c.t.Helper()
	const says = "a successor serves from now on"
	var words []string
	for range n {
		words = append(words, says, "pid=", " ")
	}
	text := c.await(words...)
	for range n {
		_, text, _ = strings.Cut(text, says)
	}
	pid, err := strconv.Atoi(wordAfter(text, "pid="))
	if err != nil {
		c.t.Fatal(err)
	}
	p, err := os.FindProcess(pid) // by the ID alone, the cleanup could kill another process
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = p.Kill() })
	return pid
}

// awaitEnd waits until a process has ended, whether or not it is a child of this one.
func (c *child) awaitEnd(pid int) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); runs(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGQUIT) // makes it print its goroutines
			time.Sleep(time.Second)
			c.t.Fatalf("process %d does not end", pid)
		}
	}
}

// runs reports whether a process is still running. A zombie is not: process 1 may not reap it.
func runs(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return runtime.GOOS != "linux" // or it has ended meanwhile
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// startAll starts a restartable server of all protocols, and returns the configuration to log in.
func startAll(t *testing.T, o childOptions, dir string, args ...string) (*sftpChild, *ssh.ClientConfig) {
	t.Helper()
	login, line := newLogin(t)
	users := usersFile(t, "user alice\n  key "+line+"\n")
	args = append([]string{dir, "--restartable", "--users", users, "--tftp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--upload", "overwrite"}, args...)
	s := startSFTP(t, o, args...)
	s.awaitURL()
	return s, s.as("alice", login)
}

// A server under load, with transfers and sessions of both protocols in progress, is replaced
// twice. No client loses anything, and each process ends when its clients have left.
func TestRestart(t *testing.T) {
	t.Parallel() // it waits most of the time
	content, dir := strings.Repeat("x", 3*512+1), bigDir(t)
	s, config := startAll(t, childOptions{}, dir, "--metrics", "127.0.0.1:0")
	load := newCrowd(s, config, dir, false)
	defer load.end()
	pids := []int{s.cmd.Process.Pid}
	for n := range 2 {
		load.more(t)
		transfer := s.halfway("kernel")
		session := s.files(config)
		file, err := session.OpenFile(t.Context(), "log", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		idle := s.files(config)

		if err := syscall.Kill(pids[n], syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, s.succeeded(n+1))
		load.more(t)

		transfer.end()
		_, err = file.Write([]byte("text"))
		session.want("write", err)
		session.want("close", file.Close())
		session.wantRead("log", "text")
		idle.wantRead("kernel", content)
		if !runs(pids[n]) {
			t.Errorf("process %d has left its clients", pids[n])
		}
		session.Close()
		idle.Close()
		s.awaitEnd(pids[n])
		load.more(t)
	}
	load.end()
	s.wantMetric(`haul_sftp_connections 0`)
	if err := syscall.Kill(pids[2], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said := s.wantExit(0)
	for _, bad := range []string{"level=ERROR", "panic"} {
		if strings.Contains(said, bad) {
			t.Errorf("the log has %q", bad)
		}
	}
}

// If a successor fails, everything stays as it was, and a later one can succeed.
func TestRestartFails(t *testing.T) {
	t.Parallel() // it waits most of the time
	base := t.TempDir()
	dir := filepath.Join(base, "files")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "kernel"), "image")
	s, config := startAll(t, childOptions{}, dir)
	session := s.files(config)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGUSR2)
	s.await("there is no successor, and this process continues to serve", "exit status")
	s.wantGet("kernel", "image")
	session.wantRead("kernel", "image")
	s.files(config).wantRead("kernel", "image")

	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGUSR2)
	pid := s.succeeded(1)
	s.wantGet("kernel", "image")
	session.wantRead("kernel", "image")
	s.files(config).wantRead("kernel", "image")
	// The remaining server also ends on a signal, although it has a client.
	s.signal(syscall.SIGTERM)
	s.awaitEnd(s.cmd.Process.Pid)
	s.wantGet("kernel", "image")
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.wantExit(0)
}

// On a single port the successor begins when the last transfer has ended. Clients repeat the
// requests that they send meanwhile.
func TestRestartSinglePort(t *testing.T) {
	c := startChild(t, childOptions{}, bigDir(t), "--single-port", "--restartable", "--grace", "1h")
	transfer := c.halfway("kernel")
	c.signal(syscall.SIGUSR2)
	pid := c.succeeded(1)
	var late sync.WaitGroup
	late.Go(func() { c.wantGet("kernel", strings.Repeat("x", 3*512+1)) })
	transfer.end()
	c.awaitEnd(c.cmd.Process.Pid)
	late.Wait()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantExit(0)
}

// Without the flag the signal is harmless.
func TestRestartNotAskedFor(t *testing.T) {
	c := startChild(t, childOptions{}, bigDir(t))
	c.signal(syscall.SIGUSR2)
	c.await("--restartable")
	c.wantGet("kernel", strings.Repeat("x", 3*512+1))
	c.stop()
}

// If a server ends while its successor starts, the successor ends too.
func TestRestartInterrupted(t *testing.T) {
	c := startChild(t, childOptions{}, bigDir(t), "--restartable")
	c.signal(syscall.SIGUSR2)
	c.signal(syscall.SIGTERM)
	c.awaitEnd(c.cmd.Process.Pid)
	if strings.Contains(c.stderr.String(), "a successor serves from now on") { // the signal came too late
		if err := syscall.Kill(c.succeeded(1), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	c.wantExit(0) // so all processes with its standard error have ended
}
