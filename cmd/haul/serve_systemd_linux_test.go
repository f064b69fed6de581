package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/handovertest"
)

// passedSockets opens sockets as systemd does for a socket unit, and returns
// their addresses.
func passedSockets(t *testing.T, n int) (files []*os.File, addrs []string) {
	t.Helper()
	for range n {
		socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		f, err := socket.File()
		if err != nil {
			t.Fatal(err)
		}
		socket.Close() // the descriptor in f stays open
		t.Cleanup(func() { f.Close() })
		files, addrs = append(files, f), append(addrs, socket.LocalAddr().String())
	}
	return files, addrs
}

func TestServeActivated(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir := servedDir(t, map[string]string{"kernel": "image"})
			files, addrs := passedSockets(t, n)
			s := handovertest.NewSystemd(t)
			args := []string{"serve", dir, "--upload", "overwrite"}
			if os.Geteuid() == 0 {
				args = append(args, "--user", "65534:65534")
			}
			c := runChild(t, childOptions{
				systemd: true,
				files:   files,
				env:     []string{fmt.Sprint("LISTEN_FDS=", n), "NOTIFY_SOCKET=" + s.Path, peekVar + "=/etc/passwd"},
			}, args...)
			ready := s.Receive(t)
			if !strings.HasPrefix(ready, "READY=1\nSTATUS=serving TFTP on ") || strings.Count(ready, "\n") != 1 {
				t.Errorf("heard %q, want READY=1", ready)
			}
			// A server that reports ready has opened all its sockets.
			c.wantSettled()
			for _, addr := range addrs {
				if !strings.Contains(ready, addr) || !strings.Contains(c.stderr.String(), "on tftp://"+addr+"\n") {
					t.Errorf("%s is not printed", addr)
				}
				c.url = "tftp://" + addr + "/"
				c.wantGet("kernel", "image")
				c.wantPut("log", addr, 0)
				c.wantGet("log", addr)
			}
			c.signal(syscall.SIGTERM)
			if got := s.Receive(t); !strings.HasPrefix(got, "STOPPING=1\nSTATUS=") {
				t.Errorf("heard %q, want STOPPING=1", got)
			}
			c.wantExit(0)
		})
	}
}

func TestServeActivatedByTCP(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	said := runChild(t, childOptions{systemd: true, files: []*os.File{f}, env: []string{"LISTEN_FDS=1"}},
		"serve", t.TempDir(), "--tftp", "127.0.0.1:0").wantExit(exitFailed)
	for _, want := range []string{"not a datagram socket", "ListenDatagram=69"} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q: %s", want, said)
		}
	}
}

// This is a service of Type=notify that opens its own sockets and has a watchdog.
func TestServeNotifies(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	s := handovertest.NewSystemd(t)
	c := runChild(t, childOptions{systemd: true, env: []string{"NOTIFY_SOCKET=" + s.Path, "WATCHDOG_USEC=300000"}},
		append([]string{"serve", dir}, anyPort...)...)
	if got := s.Receive(t); !strings.HasPrefix(got, "READY=1\nSTATUS=serving TFTP on [127.0.0.1:") {
		t.Errorf("heard %q, want READY=1", got)
	}
	c.awaitURL()
	c.wantGet("kernel", "image")
	for range 3 {
		if got := s.Receive(t); got != "WATCHDOG=1" {
			t.Errorf("heard %q, want WATCHDOG=1", got)
		}
	}
	c.signal(syscall.SIGTERM)
	last := s.Receive(t)
	for last == "WATCHDOG=1" {
		last = s.Receive(t)
	}
	if !strings.HasPrefix(last, "STOPPING=1\nSTATUS=") {
		t.Errorf("heard %q, want STOPPING=1", last)
	}
	c.wantExit(0)
}

// A server that cannot serve never reports ready.
func TestServeNotReady(t *testing.T) {
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := handovertest.NewSystemd(t)
	c := runChild(t, childOptions{systemd: true, env: []string{"NOTIFY_SOCKET=" + s.Path}},
		"serve", t.TempDir(), "--tftp", taken.LocalAddr().String())
	if said := c.wantExit(exitFailed); !strings.Contains(said, "another server has that port") {
		t.Errorf("said %s", said)
	}
	// Its messages would have arrived before this one.
	conn, err := net.Dial("unixgram", s.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("END")); err != nil {
		t.Fatal(err)
	}
	if got := s.Receive(t); got != "END" {
		t.Errorf("heard %q of a service that could not start", got)
	}
}

// If NOTIFY_SOCKET names a missing socket, this is an error before anything is opened.
func TestServeManagerMissing(t *testing.T) {
	said := runChild(t, childOptions{env: []string{"NOTIFY_SOCKET=/nonexistent/notify"}},
		append([]string{"serve", t.TempDir()}, anyPort...)...).wantExit(exitFailed)
	if !strings.Contains(said, "NOTIFY_SOCKET=/nonexistent/notify") || strings.Contains(said, "serving") {
		t.Errorf("said %s", said)
	}
}

// systemd learns the process ID of the successor before the successor sends messages.
func TestServeSucceeded(t *testing.T) {
	s := handovertest.NewSystemd(t)
	c := runChild(t, childOptions{systemd: true, env: []string{"NOTIFY_SOCKET=" + s.Path, "WATCHDOG_USEC=3600000000"}},
		append([]string{"serve", bigDir(t), "--restartable"}, anyPort...)...)
	hear := func(begins string) {
		t.Helper()
		got := s.Receive(t)
		for got == "WATCHDOG=1" {
			got = s.Receive(t)
		}
		if !strings.HasPrefix(got, begins) {
			t.Errorf("heard %q, want %q", got, begins)
		}
	}
	hear("READY=1\n")
	c.awaitURL()
	c.signal(syscall.SIGUSR2)
	pid := c.succeeded(1)
	hear(fmt.Sprintf("MAINPID=%d\nSTATUS=", pid))
	hear("READY=1\n")
	c.awaitEnd(c.cmd.Process.Pid)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1\n")
	c.wantExit(0)
}
