//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/tcp"
)

// At the end a connection that is kept open has an answer to what comes by it, and is
// told to go with that: its request may have been on its way when the end began. Go's
// own client would send it again, and not tell.
func TestServeHTTPLastCall(t *testing.T) {
	t.Parallel() // it waits most of the time
	p := &httpPort{lastCall: patience}
	p.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "image")
	}), slog.New(slog.DiscardHandler))
	socket, err := tcp.Listen(t.Context(), "127.0.0.1:0", tcp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.sockets = []*tcp.Socket{socket}
	s := &httpService{f: &serveFlags{grace: patience}}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- s.servePort(ctx, ctx, p) }()

	c, err := net.Dial("tcp", socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	ask := func() (last bool) {
		t.Helper()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "image" {
			t.Fatalf("%q, %v", body, err)
		}
		return resp.Close
	}
	if ask() {
		t.Fatal("the first answer is the last")
	}
	end()
	awaitRefused(t, c.RemoteAddr().String())
	if !ask() {
		t.Error("the answer at the end is not the last")
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("behind the last answer: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The log does not blame the peer of a request that the end of the server cuts short.
func TestServeHTTPCutShort(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := servedDir(t, map[string]string{"large": ""})
	if err := os.Truncate(filepath.Join(dir, "large"), 1<<30); err != nil { // more than any socket's buffer
		t.Fatal(err)
	}
	s := startHTTP(t, dir, "--upload", "create", "--grace", "10ms")
	for _, request := range []string{"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", "PUT /new HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.at, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // it is under way
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
