//go:build unix

// Package handovertest replaces systemd in tests.
package handovertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience is how long a service may take to start, to notify or to exit.
const patience = time.Minute

// A Systemd stands in for systemd: it starts services and receives their notifications.
type Systemd struct {
	notify *net.UnixConn
	Path   string // the path of the socket, for NOTIFY_SOCKET
}

// NewSystemd opens a socket for notifications, and closes it when the test ends.
func NewSystemd(t *testing.T) *Systemd {
	t.Helper()
	s := &Systemd{Path: filepath.Join(t.TempDir(), "notify")}
	var err error
	if s.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.Path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Command prepares this test binary to run as a service with sockets. A shell starts it, because
// the shell can set variables to the process ID.
func (s *Systemd) Command(t *testing.T, files []*os.File, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `LISTEN_PID=${LISTEN_PID-$$} WATCHDOG_PID=$$ exec "$0"`, exe)
	cmd.Env = append(os.Environ(), fmt.Sprint("LISTEN_FDS=", len(files)), "NOTIFY_SOCKET="+s.Path)
	cmd.Env = append(cmd.Env, env...)
	cmd.ExtraFiles = files // they become descriptors 3 and up, as with systemd
	return cmd
}

// Receive returns the next notification.
func (s *Systemd) Receive(t *testing.T) string {
	t.Helper()
	s.notify.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 4096)
	n, err := s.notify.Read(b)
	if err != nil {
		t.Fatalf("receive a notification: %v", err)
	}
	return string(b[:n])
}

// Close closes the socket, so that notifications fail.
func (s *Systemd) Close() { s.notify.Close() }
