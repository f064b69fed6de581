package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
)

// A badHandshake is what a server tells of one.
type badHandshake struct {
	peer string
	err  error
}

// serveTelling serves until the test ends, and returns what it tells of handshakes that
// fail. It says goodbye to their clients.
func serveTelling(t *testing.T, s *Server) (at string, told chan badHandshake) {
	t.Helper()
	told = make(chan badHandshake, 10)
	s.HandshakeTimeout, s.Handle = patience, echo
	s.BadHandshake = func(c *Conn, err error) {
		_, _ = io.WriteString(c, "goodbye")
		told <- badHandshake{c.RemoteAddr().String(), err}
	}
	at, _ = serve(t, s)
	return at, told
}

// Each connection whose PROXY header, or TLS handshake, fails is told of, with the
// reason, and as long as it is open; and no other is.
func TestBadHandshakeProxy(t *testing.T) {
	s := &Server{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, MaxConnsPerSource: 1}
	at, told := serveTelling(t, s)
	for first, want := range map[string]error{
		"GET / HTTP/1.1\r\n\r\n": ErrNoProxyHeader, "PROXY TCP5 \r\n": errProxyFamily, "": io.EOF, "PROX": io.ErrUnexpectedEOF,
	} {
		c := dial(t, at)
		if _, err := io.WriteString(c, first); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got := <-told
		if !errors.Is(got.err, want) || !errors.Is(got.err, ErrProxyHeader) || got.peer != c.LocalAddr().String() {
			t.Errorf("%q: told of %s: %v; want %s: %v", first, got.peer, got.err, c.LocalAddr(), want)
		}
		if b, _ := io.ReadAll(c); string(b) != "goodbye" {
			t.Errorf("%q: the client has read %q", first, b)
		}
	}
	const header = "PROXY TCP4 192.0.2.1 198.51.100.2 12345 22\r\n"
	for i := range 2 { // the second is one too many, which is no failure of its handshake
		c := dial(t, at)
		if _, err := io.WriteString(c, header); err != nil {
			t.Fatal(err)
		}
		if works(c) != (i == 0) {
			t.Errorf("connection %d", i)
		}
	}
	if n := s.Counters().BadHandshakes; n != 4 || len(told) > 0 {
		t.Errorf("%d are counted, and %d told besides", n, len(told))
	}
}

func TestBadHandshakeTLS(t *testing.T) {
	server, client := testTLS()
	at, told := serveTelling(t, &Server{TLS: server})
	if !secure(t, at) {
		t.Error("a good connection is not served")
	}
	c := dial(t, at)
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got := <-told
	if record, ok := errors.AsType[tls.RecordHeaderError](got.err); !ok || string(record.RecordHeader[:3]) != "GET" || got.peer != c.LocalAddr().String() {
		t.Errorf("told of %s: %v", got.peer, got.err)
	}
	if b, _ := io.ReadAll(c); string(b) != "goodbye" {
		t.Errorf("the client has read %q", b)
	}
	distrusts := client.Clone()
	distrusts.RootCAs = nil
	if err := tls.Client(dial(t, at), distrusts).Handshake(); err == nil {
		t.Fatal("the certificate is trusted")
	}
	if got := <-told; got.err == nil || !strings.HasPrefix(got.err.Error(), "remote error: tls: ") || !strings.Contains(got.err.Error(), "certificate") {
		t.Errorf("told of %v", got.err)
	}
	if len(told) > 0 {
		t.Errorf("%d are told besides", len(told))
	}
}
