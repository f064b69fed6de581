//go:build unix

package main

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// lineWith returns the first line that has some words, or "".
func lineWith(text, words string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if strings.Contains(line, words) {
			return line
		}
	}
	return ""
}

// Who does not come as far as a request is told of, with what to do about it; and who
// forgot TLS is told himself.
func TestServeHTTPSBadHandshakes(t *testing.T) {
	t.Parallel() // it waits most of the time
	pair, trust := certificate(t, t.TempDir())
	s := startHTTPS(t, trust, append([]string{servedDir(t, map[string]string{"kernel": "image"}), "--metrics", "127.0.0.1:0"}, pair...)...)
	s.want(200, "image", "GET /kernel", "")
	at := strings.TrimPrefix(s.at, "https://")
	dial := func() net.Conn {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(patience))
		return c
	}
	for _, rest := range []string{"", "X: " + strings.Repeat("x", 4000) + "\r\n"} {
		c := dial()
		if _, err := io.WriteString(c, "GET /kernel HTTP/1.1\r\nHost: x\r\n"+rest+"\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%d bytes: %v", len(rest), err)
		}
		if b, err := io.ReadAll(resp.Body); resp.StatusCode != 400 || !strings.Contains(string(b), "HTTPS server") || err != nil {
			t.Errorf("%d %q, %v", resp.StatusCode, b, err)
		}
		resp.Body.Close()
		c.Close()
	}
	if err := tls.Client(dial(), &tls.Config{ServerName: "127.0.0.1"}).Handshake(); err == nil {
		t.Fatal("the certificate is trusted")
	}
	if _, err := io.WriteString(dial(), "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(dial(), "SSH-2.0-client\r\n"); err != nil {
		t.Fatal(err)
	}
	dial().Close() // looks whether somebody listens
	s.wantMetric(`haul_connections_bad_handshakes_total{protocol="https"} 6`)
	said := s.stop()
	for cause, advice := range map[string]string{
		"\"HTTP without TLS\"": "advice=\"the URL has to begin with https://", "\"the client does not trust the certificate\"": "advice=\"the client needs",
		"\"a PROXY header\"": "advice=\"the peer sends", "TLS": "",
	} {
		line := lineWith(said, "msg=\"https: handshakes failed\" cause="+cause+" ")
		if !strings.Contains(line, " last=127.0.0.1:") || !strings.Contains(line, " error=") || !strings.Contains(line, advice) || (advice == "") == strings.Contains(line, "advice=") {
			t.Errorf("of %s it says %q", cause, line)
		}
	}
	if strings.Contains(said, "EOF") {
		t.Error("it tells of who has said nothing")
	}
}
