//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/certs"
	"github.com/haul-project/haul/users"
)

// An httpChild is an HTTP server in a process of its own.
type httpChild struct {
	*child
	client *http.Client
	at     string // URL without the last slash, such as "http://127.0.0.1:1234"
}

// startHTTP runs "haul serve" with HTTP on a free port until it has printed its address.
func startHTTP(t *testing.T, args ...string) *httpChild {
	t.Helper()
	s := &httpChild{child: runChild(t, childOptions{}, append([]string{"serve", "--http", "127.0.0.1:0"}, args...)...)}
	s.awaitHTTP("http")
	return s
}

func (s *httpChild) awaitHTTP(scheme string) {
	s.t.Helper()
	before := " on " + scheme + "://"
	s.at = scheme + "://" + wordAfter(s.await(before, "\n"), before)
	transport := &http.Transport{}
	s.client = &http.Client{Transport: transport, Timeout: patience}
	s.t.Cleanup(transport.CloseIdleConnections)
}

// ask sends a request, and returns the answer and its body. Each of fields is "Key: value", or
// begins with "user:" before a name and a password.
func (s *httpChild) ask(request, body string, fields ...string) (*http.Response, string) {
	s.t.Helper()
	method, target, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.at+target, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range fields {
		key, value, _ := strings.Cut(f, ": ")
		if key == "user" {
			name, password, _ := strings.Cut(value, ":")
			r.SetBasicAuth(name, password)
			continue
		}
		r.Header.Set(key, value)
	}
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatalf("%s: %v", request, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s: %v", request, err)
	}
	return resp, string(b)
}

func (s *httpChild) want(status int, body, request, content string, fields ...string) {
	s.t.Helper()
	resp, got := s.ask(request, content, fields...)
	if resp.StatusCode != status || body != "*" && got != body {
		s.t.Errorf("%s %q: %d %q, want %d %q", request, fields, resp.StatusCode, got, status, body)
	}
}

// certificate creates a certificate for this machine, and returns the server's flags and a client
// configuration that trusts it.
func certificate(t *testing.T, dir string) ([]string, *tls.Config) {
	t.Helper()
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair := certs.Pair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for _, file := range []string{pair.Cert, pair.Key} {
		_ = os.Remove(file)
	}
	if err := pair.Create(cert); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	return []string{"--cert", pair.Cert, "--key", pair.Key}, &tls.Config{RootCAs: roots}
}

// startHTTPS runs "haul serve" with HTTPS.
func startHTTPS(t *testing.T, trust *tls.Config, args ...string) *httpChild {
	t.Helper()
	s := &httpChild{child: runChild(t, childOptions{}, append([]string{"serve", "--https", "127.0.0.1:0"}, args...)...)}
	s.awaitHTTP("https")
	transport := s.client.Transport.(*http.Transport)
	transport.TLSClientConfig, transport.ForceAttemptHTTP2 = trust, true
	return s
}

// hashed returns a line of a users file for a password.
func hashed(t *testing.T, password string) string {
	t.Helper()
	h, err := users.HashPassword([]byte(password))
	if err != nil {
		t.Fatal(err)
	}
	return "  password " + h.Encoded() + "\n"
}

// With TLS 1.2, all suites have forward secrecy and authenticated encryption.
func TestServeHTTPSSuites(t *testing.T) {
	flags, trust := certificate(t, t.TempDir())
	s := startHTTPS(t, trust, append(flags, servedDir(t, nil))...)
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if !strings.Contains(suite.Name, "_ECDSA_") { // the certificate requires this
			continue
		}
		c, err := tls.Dial("tcp", strings.TrimPrefix(s.at, "https://"), &tls.Config{
			RootCAs: trust.RootCAs, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID},
		})
		if err == nil {
			c.Close()
		}
		want := strings.Contains(suite.Name, "_GCM_") || strings.Contains(suite.Name, "_CHACHA20_")
		if (err == nil) != want {
			t.Errorf("%s: %v", suite.Name, err)
		}
	}
}

// A download in progress at the first signal is completed.
func TestServeHTTPDrains(t *testing.T) {
	t.Parallel()          // it waits most of the time
	const size = 64 << 20 // more than the sockets buffer
	dir := servedDir(t, map[string]string{"large": ""})
	if err := os.Truncate(filepath.Join(dir, "large"), size); err != nil {
		t.Fatal(err)
	}
	s := startHTTP(t, dir, "--grace", "1m")
	c, err := net.Dial("tcp", strings.TrimPrefix(s.at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /large HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 1000)
	if _, err := io.ReadFull(c, head); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGTERM)
	awaitRefused(t, c.RemoteAddr().String())
	n, err := io.Copy(io.Discard, c)
	header, _, _ := bytes.Cut(head, []byte("\r\n\r\n"))
	if want := int64(size + len(header) + 4 - len(head)); err != nil || n != want {
		t.Errorf("%d bytes more, %v; want %d", n, err, want)
	}
	s.wantExit(0)
}

// Requests on connections that exist when the end begins are answered, however slowly they arrive:
// each is half sent at the signal, and the rest follows long after the server has asked HTTP/2
// clients to leave.
func TestServeHTTPSDrains(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := servedDir(t, map[string]string{"kernel": "image"})
	flags, trust := certificate(t, t.TempDir())
	s := startHTTPS(t, trust, append(flags, dir, "--upload", "create", "--grace", "1m", "--metrics", "127.0.0.1:0")...)
	host := strings.TrimPrefix(s.at, "https://")
	if resp, body := s.ask("GET /kernel", ""); resp.Proto != "HTTP/2.0" || body != "image" {
		t.Errorf("%s: %q", resp.Proto, body)
	}
	slow, err := tls.Dial("tcp", host, &tls.Config{RootCAs: trust.RootCAs, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	second, err := tls.Dial("tcp", host, &tls.Config{RootCAs: trust.RootCAs, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for _, c := range []*tls.Conn{slow, second} {
		c.SetDeadline(time.Now().Add(patience))
	}
	fmt.Fprint(slow, "PUT /new HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab")
	// The preface of HTTP/2, and empty SETTINGS: RFC 9113 §3.4.
	fmt.Fprint(second, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	s.wantMetric(`haul_connections{protocol="https"} 3`)
	s.signal(syscall.SIGTERM)
	// The server asks this client to leave, and the connection ends.
	if _, err := io.Copy(io.Discard, second); err != nil {
		t.Errorf("the end of HTTP/2: %v", err)
	}
	fmt.Fprint(slow, "cde")
	answer, err := io.ReadAll(slow)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 201") {
		t.Errorf("%q, %v", answer, err)
	}
	wantFile(t, filepath.Join(dir, "new"), "abcde")
	s.wantExit(0)
}
