//go:build !haul_portable

package main

import (
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The kernel uses the algorithm of --tcp-congestion for SFTP and HTTP connections.
func TestServeCongestion(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	want := ""
	for name := range strings.FieldsSeq(read("tcp_available_congestion_control")) {
		if name != read("tcp_congestion_control") {
			want = name
		}
	}
	if want == "" {
		t.Skip("the kernel has one congestion control")
	}
	s := startSFTP(t, childOptions{}, servedDir(t, nil), "--http", "127.0.0.1:0", "--tcp-congestion", want)
	web := &httpChild{child: s.child}
	web.awaitHTTP("http")
	for _, addr := range []string{s.at, strings.TrimPrefix(web.at, "http://")} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("S")); err != nil { // a server may wait for the first byte
			t.Fatal(err)
		}
		got := ""
		eventually(t, "the server has accepted a connection", func() bool {
			got = congestionOf(t, s.cmd.Process.Pid, c.LocalAddr().(*net.TCPAddr).Port)
			return got != ""
		})
		if got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
		c.Close()
	}
	s.stop()
}

// congestionOf returns the congestion control of a process's connection from a port, or "" if there
// is no such connection.
func congestionOf(t *testing.T, pid, port int) string {
	t.Helper()
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	for fd := 3; fd < 100; fd++ {
		own, err := unix.PidfdGetfd(process, fd, 0)
		if err == unix.EPERM || err == unix.ENOSYS {
			t.Skip("descriptors of another process:", err)
		}
		if err != nil {
			continue // not open
		}
		peer, err := unix.Getpeername(own)
		name, _ := unix.GetsockoptString(own, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		unix.Close(own)
		if from, ok := peer.(*unix.SockaddrInet4); err == nil && ok && from.Port == port {
			return strings.TrimRight(name, "\x00")
		}
	}
	return ""
}
