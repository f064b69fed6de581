//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// The server offers only SFTP: no commands, terminals, environment, agents or tunnels. A client
// that has asked for all of these still gets files.
func TestServeSFTPNothingElse(t *testing.T) {
	s := startSFTP(t, childOptions{env: []string{"HAUL_SECRET=x"}}, servedDir(t, map[string]string{"kernel": "image"}))
	c := s.login(s.once())
	for _, kind := range []string{"direct-tcpip", "direct-streamlocal@openssh.com", "forwarded-tcpip", "x11", "tun@openssh.com", "auth-agent@openssh.com", ""} {
		if ch, _, err := c.OpenChannel(kind, ssh.Marshal(struct {
			Host   string
			Port   uint32
			Origin string
			From   uint32
		}{"127.0.0.1", 22, "127.0.0.1", 1})); err == nil {
			ch.Close()
			t.Errorf("a channel %q is opened", kind)
		}
	}
	for _, kind := range []string{"tcpip-forward", "streamlocal-forward@openssh.com", "cancel-tcpip-forward", "no-more-sessions@openssh.com"} {
		if ok, _, err := c.SendRequest(kind, true, ssh.Marshal(struct {
			Host string
			Port uint32
		}{"127.0.0.1", 0})); ok || err != nil {
			t.Errorf("request %s: %v, %v", kind, ok, err)
		}
	}
	ch, requests, err := c.OpenChannel("session", nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(requests)
	word := func(w string) []byte { return ssh.Marshal(struct{ Word string }{w}) }
	for kind, payload := range map[string][]byte{
		"exec":                       word("id"),
		"shell":                      nil,
		"pty-req":                    word("xterm"),
		"env":                        ssh.Marshal(struct{ Name, Value string }{"LD_PRELOAD", "/tmp/x"}),
		"x11-req":                    nil,
		"auth-agent-req@openssh.com": nil,
		"window-change":              nil,
		"signal":                     word("KILL"),
	} {
		if ok, err := ch.SendRequest(kind, true, payload); ok || err != nil {
			t.Errorf("request %s: %v, %v", kind, ok, err)
		}
	}
	for _, name := range []string{"shell", "", "sftp\x00", "sftp /bin/sh", "internal-sftp"} {
		if ok, err := ch.SendRequest("subsystem", true, word(name)); ok || err != nil {
			t.Errorf("subsystem %q: %v, %v", name, ok, err)
		}
	}
	if ok, err := ch.SendRequest("subsystem", true, word("sftp")); !ok || err != nil {
		t.Errorf("SFTP itself: %v, %v", ok, err)
	}
	if ok, err := ch.SendRequest("subsystem", true, word("sftp")); ok || err != nil {
		t.Errorf("SFTP a second time on one channel: %v, %v", ok, err)
	}
	for range 100 { // too often for each to be logged
		if ok, err := ch.SendRequest("exec", true, word("again")); ok || err != nil {
			t.Errorf("a command: %v, %v", ok, err)
		}
	}
	f := s.files(s.once())
	f.wantRead("kernel", "image")
	f.want("symlink", f.Symlink(t.Context(), strings.Repeat("../", 9)+"etc", "out"))
	if _, err := f.Stat(t.Context(), "out/passwd"); err == nil {
		t.Error("looked out of the root")
	}
	if _, err := f.Stat(t.Context(), "none"); err == nil {
		t.Error("found what is not there")
	}
	said := s.stop()
	for _, want := range []string{
		"operation=exec command=id user=haul peer=127.0.0.1:", "operation=shell user=haul", "operation=pty-req user=haul",
		"operation=x11-req user=haul", "operation=auth-agent-req@openssh.com user=haul", "operation=subsystem subsystem=internal-sftp user=haul",
		"operation=direct-tcpip to=127.0.0.1:22 user=haul", "operation=tcpip-forward to=127.0.0.1:0 user=haul",
		"operation=stat file=/out/passwd user=haul", "further requests of this connection are not logged",
	} {
		if !strings.Contains(said, "level=WARN msg=sftp result=refused "+want) && !strings.Contains(said, want+"\"") {
			t.Errorf("lacks %q", want)
		}
	}
	if n := strings.Count(said, "result=refused operation=exec"); n == 0 || n > 32 {
		t.Errorf("the log has %d commands", n)
	}
	if strings.Contains(said, "file=/none") || strings.Contains(said, "operation=env") {
		t.Error("the log has a line that is no refusal")
	}
}

// Clients that have not logged in when the server ends get no grace, however little they send.
func TestServeSFTPEndsHandshakes(t *testing.T) {
	s := startSFTP(t, childOptions{}, servedDir(t, nil), "--grace", "1h", "--metrics", "127.0.0.1:0")
	for range 3 {
		c, err := net.Dial("tcp", s.at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	s.wantMetric("haul_sftp_handshakes 3")
	s.stop()
}

// An upload that is not closed within the grace period is discarded, and its client gets an error.
// After the second signal there is no grace period.
func TestServeSFTPGraceRunsOut(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, second := range []bool{false, true} {
		dir := servedDir(t, nil)
		grace := "1s"
		if second {
			grace = "1h"
		}
		s := startSFTP(t, childOptions{}, dir, "--grace", grace, "--metrics", "127.0.0.1:0")
		f := s.files(s.once())
		if _, err := f.OpenFile(t.Context(), "log", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
			t.Fatal(err)
		}
		s.signal(syscall.SIGTERM)
		if second {
			s.wantDraining()
			time.Sleep(2 * sameSignal)
			s.signal(syscall.SIGTERM)
			s.wantExit(exitInterrupted)
		} else {
			said := s.wantExit(0)
			if !strings.Contains(said, "level=WARN msg=sftp result=failed direction=write file=/log") ||
				!strings.Contains(said, "ended by the server: the server ends; the part that arrived is discarded") {
				t.Error("the log does not have the upload")
			}
			wantNames(t, dir)
		}
		if _, err := os.Stat(filepath.Join(dir, "log")); err == nil {
			t.Error("there is a file that was never closed")
		}
	}
}

// The rate applies to all clients together. The speed of the machine does not matter: the transfer
// takes at least as long as the rate requires.
func TestServeSFTPRate(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := servedDir(t, map[string]string{"file": strings.Repeat("x", 1<<20)})
	s := startSFTP(t, childOptions{}, dir, "--sftp-rate", "1MiB")
	f := s.files(s.once())
	began := time.Now()
	f.wantRead("file", strings.Repeat("x", 1<<20))
	// The burst at the beginning, and the last bytes, do not wait.
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("a second's bytes took %v", took)
	}
	s.stop()
}
