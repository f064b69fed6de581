package main

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// listen accepts connections on a local port, and passes them to serve.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// A connection through a proxy command runs over its pipes, not a socket.
func TestProxyCommand(t *testing.T) {
	content := strings.Repeat("0123456789", 100_000)
	l := startLab(t, map[string]string{"f": content})
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asProxy, l.addr)
	l.configure("IdentityFile "+l.key, "ProxyCommand "+exe)
	if got := l.must("get", "lab:f", "-"); got != content {
		t.Errorf("%d bytes, want %d", len(got), len(content))
	}
}

// asProxy makes this test binary connect its standard input and output to an address.
const asProxy = "HAUL_TEST_AS_PROXY"

func runProxy(addr string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		os.Exit(0)
	}()
	_, _ = io.Copy(os.Stdout, c)
	os.Exit(0)
}
