//go:build unix

package main

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// If the end of the server cuts a request short, the log does not blame the peer.
func TestServeHTTPCutShort(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := servedDir(t, map[string]string{"large": ""})
	if err := os.Truncate(filepath.Join(dir, "large"), 1<<30); err != nil { // more than any socket buffers
		t.Fatal(err)
	}
	s := startHTTP(t, dir, "--upload", "create", "--grace", "10ms")
	for _, request := range []string{"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n", "PUT /new HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.at, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // the transfer has begun
			t.Fatal(err)
		}
	}
	said := s.stop()
	for _, want := range []string{"result=failed direction=read file=/large", "result=failed direction=write file=/new"} {
		line := lineWith(said, want)
		if !strings.Contains(line, `error="server is shutting down`) {
			t.Errorf("of %s the log has %q", want, line)
		}
	}
}
