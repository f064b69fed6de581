//go:build unix

package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startPlainAuth runs "haul serve" with HTTP for alice, as behind a proxy.
func startPlainAuth(t *testing.T, args ...string) *httpChild {
	t.Helper()
	dir := servedDir(t, map[string]string{"kernel": "image"})
	file := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("user alice\n"+hashed(t, "wonderland")), 0o600); err != nil {
		t.Fatal(err)
	}
	return startHTTP(t, append([]string{dir, "--http-auth", file, "--http-plain-auth"}, args...)...)
}

// enoughToOwe is the number of wrong passwords after which the server blocks a client for a while.
const enoughToOwe = 4

// askBehind sends a request with a proxy's header about the client, and returns the status of the
// answer.
func (s *httpChild) askBehind(header, password string) int {
	s.t.Helper()
	network, at := "tcp", strings.TrimPrefix(s.at, "http://")
	if strings.HasPrefix(at, "/") {
		network = "unix"
	}
	c, err := net.Dial(network, at)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	login := base64.StdEncoding.EncodeToString([]byte("alice:" + password))
	fmt.Fprintf(c, "%sGET /kernel HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Basic %s\r\n\r\n", header, login)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// Behind a proxy that names the client of each connection, wrong passwords count for that client,
// and block nobody else.
func TestServeHTTPProxy(t *testing.T) {
	s := startPlainAuth(t, "--http-proxy", "127.0.0.1/32", "--deny", "192.0.2.13")
	const guesser, other = "PROXY TCP4 192.0.2.9 127.0.0.1 4321 80\r\n", "PROXY TCP6 2001:db8::9 ::1 4321 80\r\n"
	// Version 2: a signature, "PROXY", TCP over IPv4, 12 bytes of addresses and ports.
	const second = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x0b\x7f\x00\x00\x01\x10\xe1\x00\x50"
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
		{"", 0},
		{"PROXY TCP4 192.0.2.13 127.0.0.1 4321 80\r\n", 0},
	} {
		if got := s.askBehind(test.header, "wonderland"); got != test.want {
			t.Errorf("%q: %d, want %d", test.header, got, test.want)
		}
	}
	said := s.stop()
	for _, want := range []string{
		"result=refused user=alice peer=192.0.2.9 method=password", "peer=[2001:db8::9]:4321 status=200", "peer=192.0.2.11:4321 status=200",
		`level=WARN msg="http: handshakes failed" cause="no PROXY header" connections=1 last=127.0.0.1:`, `advice="the peer is in --http-proxy`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("lacks %q", want)
		}
	}
}

// Denied clients, and connections beyond a source's limit, are refused before TLS: no byte of the
// handshake is answered, whether the connection or a PROXY header names the client.
func TestServeHTTPSRefusesBeforeTLS(t *testing.T) {
	flags, trust := certificate(t, t.TempDir())
	s := startHTTPS(t, trust, append(flags, servedDir(t, nil), "--http-conns-per-source", "1", "--http-proxy", "127.0.0.3/32", "--deny", "127.0.0.2,192.0.2.13")...)
	var hello bytes.Buffer // a ClientHello
	_ = tls.Client(recorder{&hello}, &tls.Config{ServerName: "h"}).Handshake()
	header := func(client string) string { return "PROXY TCP4 " + client + " 198.51.100.1 4321 443\r\n" }
	for _, test := range []struct {
		what, from, text string
		answered, stays  bool
	}{
		{"a denied address", "127.0.0.2", hello.String(), false, false},
		{"another address", "127.0.0.1", hello.String(), true, true},
		{"the same again", "127.0.0.1", hello.String(), false, false},
		{"a denied client", "127.0.0.3", header("192.0.2.13") + hello.String(), false, false},
		{"a client", "127.0.0.3", header("192.0.2.1") + hello.String(), true, true},
		{"the same client again", "127.0.0.3", header("192.0.2.1") + hello.String(), false, false},
		{"another client", "127.0.0.3", header("192.0.2.2") + hello.String(), true, false},
		{"a proxy without a header", "127.0.0.3", hello.String(), false, false},
	} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(test.from)}}
		c, err := d.Dial("tcp", strings.TrimPrefix(s.at, "https://"))
		if errors.Is(err, syscall.ECONNRESET) && !test.answered {
			continue // refused before connect returned
		}
		if err != nil && runtime.GOOS != "linux" {
			t.Skip(err) // other systems have one address in this network
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, test.text) // if the server refuses the connection, reading fails
		var first [1]byte
		n, err := c.Read(first[:])
		const handshake = 22 // RFC 8446 §5.1
		if (n == 1) != test.answered || test.stays && first[0] != handshake || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: answered by %d (%v), %v", test.what, n, first, err)
		}
		if !test.stays {
			_ = c.Close()
		}
	}
}

// A recorder is a connection that only records writes.
type recorder struct{ *bytes.Buffer }

func (recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (recorder) Close() error                     { return nil }
func (recorder) LocalAddr() net.Addr              { return nil }
func (recorder) RemoteAddr() net.Addr             { return nil }
func (recorder) SetDeadline(time.Time) error      { return nil }
func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }
