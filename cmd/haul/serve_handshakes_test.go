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

// The log reports clients whose requests do not get through, with advice. A client that forgot TLS
// gets an answer that says so.
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
		if _, err := io.WriteString(c, "GET /kernel HTTP/1.1\r\nHost: localhost\r\n"+rest+"\r\n"); err != nil {
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
	dial().Close() // a port check
	s.wantMetric(`haul_connections_bad_handshakes_total{protocol="https"} 6`)
	said := s.stop()
	for cause, advice := range map[string]string{
		"\"HTTP without TLS\"": "advice=\"the URL must begin with https://", "\"the client does not trust the certificate\"": "advice=\"the client needs",
		"\"a PROXY header\"": "advice=\"the peer sends", "TLS": "",
	} {
		line := lineWith(said, "msg=\"https: handshakes failed\" cause="+cause+" ")
		if !strings.Contains(line, " last=127.0.0.1:") || !strings.Contains(line, " error=") || !strings.Contains(line, advice) || (advice == "") == strings.Contains(line, "advice=") {
			t.Errorf("of %s it says %q", cause, line)
		}
	}
	if strings.Contains(said, "EOF") {
		t.Error("it logs a client that has sent nothing")
	}
}

// The log also reports clients that do not speak HTTP.
func TestServeHTTPBadBeginnings(t *testing.T) {
	s := startHTTP(t, servedDir(t, map[string]string{"kernel": "image"}))
	ask := func(text string) string {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.at, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "HTTP") { // otherwise the server would wait for the rest
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		b, _ := io.ReadAll(c)
		return string(b)
	}
	const request = "GET /kernel HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for text, status := range map[string]string{
		"PROXY TCP4 192.0.2.1 198.51.100.2 12345 80\r\n" + request:                                         " 400 ",
		"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x00\x02" + request: " 400 ",
		"\x16\x03\x01\x00\x01\x01": "",
		request:                    " 200 ",
		"P":                        "",
	} {
		if got := ask(text); !strings.Contains(got, status) {
			t.Errorf("%q: %q; want %q", text, got, status)
		}
	}
	said := s.stop()
	for cause, advice := range map[string]string{`"a PROXY header"`: "not in --http-proxy", `"TLS without HTTPS"`: "begin with http://"} {
		line := lineWith(said, `msg="http: handshakes failed" cause=`+cause+" ")
		if !strings.Contains(line, " last=127.0.0.1:") || !strings.Contains(line, advice) {
			t.Errorf("of %s it says %q", cause, line)
		}
	}
	// The second of the PROXY headers may have a line of its own.
	if n := strings.Count(said, "handshakes failed"); n > 3 {
		t.Errorf("there are %d lines:\n%s", n, said)
	}
}
