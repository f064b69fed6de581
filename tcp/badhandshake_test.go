package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
)

// A badHandshake records a call of BadHandshake.
type badHandshake struct {
	peer string
	err  error
}

// serveReporting serves until the test ends, and returns the calls of BadHandshake. It sends
// "goodbye" to their clients.
func serveReporting(t *testing.T, s *Server) (at string, reported chan badHandshake) {
	t.Helper()
	reported = make(chan badHandshake, 10)
	s.HandshakeTimeout, s.Handle = patience, echo
	s.BadHandshake = func(c *Conn, err error) {
		_, _ = io.WriteString(c, "goodbye")
		reported <- badHandshake{c.RemoteAddr().String(), err}
	}
	at, _ = serve(t, s)
	return at, reported
}

// Each connection whose PROXY header or TLS handshake fails is reported with the reason, while it
// is open. No other connection is reported.
func TestBadHandshakeProxy(t *testing.T) {
	s := &Server{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, MaxConnsPerSource: 1}
	at, reported := serveReporting(t, s)
	for first, want := range map[string]error{
		"GET / HTTP/1.1\r\n\r\n": ErrNoProxyHeader, "PROXY TCP5 \r\n": ErrProxyHeader, "": io.EOF, "PROX": io.ErrUnexpectedEOF,
	} {
		c := dial(t, at)
		if _, err := io.WriteString(c, first); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got := <-reported
		if !errors.Is(got.err, want) || !errors.Is(got.err, ErrProxyHeader) || got.peer != c.LocalAddr().String() {
			t.Errorf("%q: reported %s: %v; want %s: %v", first, got.peer, got.err, c.LocalAddr(), want)
		}
		if b, _ := io.ReadAll(c); string(b) != "goodbye" {
			t.Errorf("%q: the client has read %q", first, b)
		}
	}
	const header = "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\r\n"
	for i := range 2 { // the second exceeds the limit, which is not a failed handshake
		c := dial(t, at)
		if _, err := io.WriteString(c, header); err != nil {
			t.Fatal(err)
		}
		if works(c) != (i == 0) {
			t.Errorf("connection %d", i)
		}
	}
	if n := s.Counters().BadHandshakes; n != 4 || len(reported) > 0 {
		t.Errorf("%d are counted, and %d more reported", n, len(reported))
	}
}

func TestBadHandshakeTLS(t *testing.T) {
	server, client := testTLS()
	at, reported := serveReporting(t, &Server{TLS: server})
	if !secure(t, at) {
		t.Error("a good connection is not served")
	}
	c := dial(t, at)
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got := <-reported
	if record, ok := errors.AsType[tls.RecordHeaderError](got.err); !ok || string(record.RecordHeader[:3]) != "GET" || got.peer != c.LocalAddr().String() {
		t.Errorf("reported %s: %v", got.peer, got.err)
	}
	if b, _ := io.ReadAll(c); string(b) != "goodbye" {
		t.Errorf("the client has read %q", b)
	}
	distrusts := client.Clone()
	distrusts.RootCAs = nil
	if err := tls.Client(dial(t, at), distrusts).Handshake(); err == nil {
		t.Fatal("the certificate is trusted")
	}
	if got := <-reported; got.err == nil || !strings.HasPrefix(got.err.Error(), "remote error: tls: ") || !strings.Contains(got.err.Error(), "certificate") {
		t.Errorf("reported %v", got.err)
	}
	if len(reported) > 0 {
		t.Errorf("%d more are reported", len(reported))
	}
}
