package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// passedUnix opens a unix socket as systemd does, and returns the socket and its path.
func passedUnix(t *testing.T) (*os.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // the descriptor in f stays open
	t.Cleanup(func() { f.Close() })
	return f, path
}

// A proxy on a unix socket names the clients of its connections, like a proxy on TCP.
func TestServeHTTPUnixProxy(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("user alice\n"+hashed(t, "wonderland")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, path := passedUnix(t)
	s := &httpChild{child: runChild(t, childOptions{systemd: true, files: []*os.File{f}, env: []string{"LISTEN_FDS=1"}},
		"serve", dir, "--http", ":80", "--http-auth", users, "--http-plain-auth", "--http-proxy", "10.0.0.0/8,unix", "--deny", "192.0.2.13"), at: path}
	s.await("serving " + dir + " on the unix socket " + path + ", by http\n")
	const guesser, other = "PROXY TCP4 192.0.2.9 127.0.0.1 4321 80\r\n", "PROXY TCP6 2001:db8::9 ::1 4321 80\r\n"
	const versionTwo = "\r\n\r\n\x00\r\nQUIT\n"
	// This is 192.0.2.11:4321 to 127.0.0.1:80.
	const second = versionTwo + "\x21\x11\x00\x0c" + "\xc0\x00\x02\x0b" + "\x7f\x00\x00\x01" + "\x10\xe1\x00\x50"
	const itself = versionTwo + "\x20\x00\x00\x00"
	for range enoughToOwe {
		s.askBehind(guesser, "wrong")
	}
	for _, test := range []struct {
		header string
		want   int
	}{
		{guesser, http.StatusTooManyRequests},
		{other, http.StatusOK},
		{second, http.StatusOK},
		{itself, http.StatusOK},
		{"", 0},
		{"PROXY TCP4 192.0.2.13 127.0.0.1 4321 80\r\n", 0},
	} {
		if got := s.askBehind(test.header, "wonderland"); got != test.want {
			t.Errorf("%q: %d, want %d", test.header, got, test.want)
		}
	}
	s.signal(syscall.SIGTERM)
	said := s.wantExit(0)
	for _, want := range []string{
		"result=refused user=alice peer=192.0.2.9 method=password", "peer=[2001:db8::9]:4321 status=200", "peer=192.0.2.11:4321 status=200", "peer=unix status=200",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("systemd's socket: %v", err)
	}
}

// A unix socket is refused for any other purpose.
func TestServeUnixRefused(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--http", ":80"}, "a path is for HTTP with --http-proxy unix"},
		{[]string{"--sftp", ":22"}, "ListenStream=22"},
		{[]string{"--sftp", ":22", "--http", ":80", "--http-proxy", "unix"}, "it is a unix socket: for SFTP"},
	} {
		f, _ := passedUnix(t)
		said := runChild(t, childOptions{systemd: true, files: []*os.File{f}, env: []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=sftp"}},
			append([]string{"serve", dir}, test.args...)...).wantExit(exitFailed)
		if !strings.Contains(said, test.says) {
			t.Errorf("%q: %s; want %q", test.args, said, test.says)
		}
	}
	code, said := refuse(t, "serve", dir, "--http", "127.0.0.1:0", "--http-proxy", "unix")
	if code != exitFailed || !strings.Contains(said, "SocketMode=0660") {
		t.Errorf("exit code %d, %s", code, said)
	}
}
