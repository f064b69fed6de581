package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A throng is a set of clients that request a large file from an HTTP server, and do not read it.
type throng struct {
	t     *testing.T
	conns map[string][]net.Conn // HTTP/1 connections, by client address
	ends  []func()              // functions that end HTTP/2 connections
	sent  int                   // number of requests that were answered with the file
	away  int                   // number of requests that were answered with 503
}

// count counts an answer.
func (c *throng) count(resp *http.Response) {
	c.t.Helper()
	switch {
	case resp.StatusCode == http.StatusOK:
		c.sent++
	case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
		c.away++
	default:
		c.t.Errorf("%s, %v", resp.Status, resp.Header)
	}
}

func (c *throng) dialer(from string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
}

// ask sends a request on a new HTTP/1 connection.
func (c *throng) ask(from, host string) (net.Conn, error) {
	conn, err := c.dialer(from).Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	c.conns[from] = append(c.conns[from], conn)
	_, _ = conn.Write([]byte("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")) // the connection may be closed already
	return conn, nil
}

// first does the same as ask, but the test fails if the server does not accept the connection.
func (c *throng) first(from, host string) net.Conn {
	c.t.Helper()
	conn, err := c.ask(from, host)
	if err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// answer reads the head of an answer. It waits at most for the time `patient`.
func (c *throng) answer(conn net.Conn, patient time.Duration) (*http.Response, error) {
	c.t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patient)); err != nil {
		c.t.Fatal(err)
	}
	return http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
}

// wantFirst sends n requests, each on its own HTTP/1 connection. All must be answered.
func (c *throng) wantFirst(n int, from, host string) {
	c.t.Helper()
	for range n {
		resp, err := c.answer(c.first(from, host), patience)
		if err != nil {
			c.t.Fatalf("a connection of %s: %v", from, err)
		}
		c.count(resp)
	}
}

// wantSecond sends n requests over HTTP/2, on as few connections as possible.
func (c *throng) wantSecond(n int, from, host string, trust *tls.Config) {
	c.t.Helper()
	tr := &http.Transport{
		DialContext: c.dialer(from).DialContext, TLSClientConfig: trust, ForceAttemptHTTP2: true,
		// The window is small, so that little of the file is buffered here.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
	}
	for range n {
		r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "https://"+host+"/large", nil)
		if err != nil {
			c.t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			c.t.Fatal(err)
		}
		if resp.ProtoMajor != 2 {
			c.t.Fatalf("%s over TLS", resp.Proto)
		}
		c.ends = append(c.ends, func() { _ = resp.Body.Close() })
		c.count(resp)
	}
	c.ends = append(c.ends, tr.CloseIdleConnections)
}

// leave closes all connections.
func (c *throng) leave() {
	for _, conns := range c.conns {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
	for _, end := range c.ends {
		end()
	}
}

// openFiles returns how many descriptors a process has.
func (c *child) openFiles() int {
	c.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	if err != nil {
		c.t.Fatal(err)
	}
	return len(entries)
}

// HTTP clients that need more descriptors than there are get 503, or wait to be accepted. TFTP
// clients are still served. When the clients have left, their descriptors are closed.
func TestServeDescriptors(t *testing.T) {
	const limit = 400
	dir := servedDir(t, map[string]string{"kernel": "image", "large": ""})
	if err := os.Truncate(filepath.Join(dir, "large"), 64<<20); err != nil {
		t.Fatal(err)
	}
	flags, trust := certificate(t, t.TempDir())
	s := &httpChild{child: runChild(t, childOptions{openFiles: limit}, append([]string{
		"serve", dir, "--tftp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
	}, flags...)...)}
	s.awaitHTTP("http")
	said := s.await(" on tftp://", " on https://", "\n")
	plain, secure := strings.TrimPrefix(s.at, "http://"), wordAfter(said, " on https://")
	s.awaitURL()
	const conns, open, filesPerRequest = 14, 15, 4 // as in internal/serve, TestHTTPBounds

	few := &throng{t: t, conns: map[string][]net.Conn{}}
	few.wantFirst(1, "127.0.0.9", plain)
	few.wantSecond(1, "127.0.0.9", secure, trust)
	s.wantGet("kernel", "image")
	few.leave()
	gone := func() {
		t.Helper()
		s.wantMetric(`haul_connections{protocol="http"} 0`)
		s.wantMetric(`haul_connections{protocol="https"} 0`)
		s.wantMetric("haul_http_requests 0")
	}
	gone()
	before := s.openFiles()

	all := &throng{t: t, conns: map[string][]net.Conn{}}
	defer all.leave()
	const half = limit/2 + 1 // twice this number of requests needs more descriptors than there are
	all.wantSecond(half, "127.0.0.2", secure, trust)
	if one := open - (open+7)/8; all.sent != one { // the share of one source
		t.Errorf("one source was sent %d files, want %d", all.sent, one)
	}
	all.wantSecond(half, "127.0.0.3", secure, trust)
	all.wantFirst(conns/2, "127.0.0.4", plain)
	if away := 2*half + conns/2 - open; all.sent != open || all.away != away {
		t.Errorf("%d were sent the file, and %d sent away, want %d and %d", all.sent, all.away, open, away)
	}
	// That many connections are also the limit of one source. A further connection may be closed
	// before connect(2) has returned.
	if conn, err := all.ask("127.0.0.4", plain); err == nil {
		if resp, err := all.answer(conn, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("one more of a source that has its share: %v, %v; want its end", resp, err)
		}
	} else if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("one more of a source that has its share: %v; want its end", err)
	}
	all.wantFirst(conns-conns/2, "127.0.0.5", plain)
	late := all.first("127.0.0.6", plain)
	if resp, err := all.answer(late, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more than there may be: %v, %v; want that it waits", resp, err)
	}
	if n, most := s.openFiles()-before, 2*conns+filesPerRequest*open; n < open || n > most {
		t.Errorf("they take %d descriptors, want %d to %d", n, open, most)
	}
	s.wantGet("kernel", "image")
	_ = all.conns["127.0.0.5"][0].Close()
	if resp, err := all.answer(late, patience); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the one that waited, when another has gone: %v, %v", resp, err)
	}

	all.leave()
	gone()
	for deadline := time.Now().Add(patience); s.openFiles() > before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there were %d descriptors, and when all have gone there are %d", before, s.openFiles())
		}
	}
	s.want(200, "image", "GET /kernel", "")
	s.wantGet("kernel", "image")
	s.client.CloseIdleConnections()
	text := s.stop()
	for _, bad := range []string{"panic", "too many open files", "goroutine "} {
		if strings.Contains(text, bad) {
			t.Errorf("the server said %q", bad)
		}
	}
}
