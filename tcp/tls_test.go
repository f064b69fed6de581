package tcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// testTLS returns the configurations of a server and of a client that trusts it.
var testTLS = sync.OnceValues(func() (server, client *tls.Config) {
	h := httptest.NewUnstartedServer(nil)
	h.StartTLS()
	defer h.Close()
	roots := x509.NewCertPool()
	roots.AddCert(h.Certificate())
	return &tls.Config{Certificates: h.TLS.Certificates}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
})

func TestTLS(t *testing.T) {
	server, client := testTLS()
	s := &Server{TLS: server, Handle: echo}
	at, stop := serve(t, s)
	c := tls.Client(dial(t, at), client)
	if _, err := io.WriteString(c, "secret"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 6)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "secret" {
		t.Errorf("%q, %v", b, err)
	}
	// The end is sent as close_notify, so that truncation is detected.
	_ = c.CloseWrite()
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	// Garbage and silence do not reach a handler.
	plain := dial(t, at)
	_, _ = io.WriteString(plain, "GET / HTTP/1.1\r\n\r\n")
	_, _ = io.ReadAll(plain)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if c := s.Counters(); c.BadHandshakes != 1 || c.Handshakes != 0 {
		t.Errorf("%+v", c)
	}
}

// Clients that never finish the handshake are ended, and do not block others.
func TestTLSHandshakeTimes(t *testing.T) {
	server, client := testTLS()
	inTime(t, func(limit time.Duration) error {
		s := &Server{TLS: server, MaxHandshakes: 2, HandshakeTimeout: limit, Handle: echo}
		at, _ := serve(t, s)
		for range 20 {
			dial(t, at) // sends nothing
		}
		half := dial(t, at)
		_, _ = half.Write([]byte{22, 3, 1, 1, 0}) // beginning of a record
		c := tls.Client(dial(t, at), client)
		if _, err := io.WriteString(c, "x"); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return err
		}
		eventually(t, "the others are ended", func() bool { n := s.Counters(); return n.BadHandshakes == 21 && n.Conns == 1 })
		return nil
	}, 200*time.Millisecond, 2*time.Second)
}

// TLS begins within a connection, when the client requests it.
func TestStartTLS(t *testing.T) {
	server, client := testTLS()
	s := &Server{Handle: func(ctx context.Context, c net.Conn) {
		b := make([]byte, 8)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "STARTTLS" {
			t.Errorf("%q, %v", b, err)
			return
		}
		_, _ = io.WriteString(c, "OK")
		secure, err := StartTLS(ctx, c, server)
		if err != nil {
			t.Error(err)
			return
		}
		echo(ctx, secure)
	}}
	at, stop := serve(t, s)
	raw := dial(t, at)
	_, _ = io.WriteString(raw, "STARTTLS")
	_, _ = io.ReadFull(raw, make([]byte, 2))
	c := tls.Client(raw, client)
	_, _ = io.WriteString(c, "secret")
	_ = c.CloseWrite()
	if b, err := io.ReadAll(c); string(b) != "secret" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := StartTLS(t.Context(), raw, server); err == nil {
		t.Error("it begins on a connection of another")
	}
}

// net/http runs on a Listener, with everything that it does to its connections.
func TestListenerForHTTP(t *testing.T) {
	server, client := testTLS()
	for _, secure := range []bool{false, true} {
		s := &Server{MaxConns: 50, Options: Options{ClientFirst: time.Second}}
		scheme := "http://"
		if secure {
			s.TLS, scheme = server, "https://"
		}
		l := listenFor(t, s)
		h := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
			_, _ = io.WriteString(w, r.URL.Path)
		})}
		done := make(chan error, 1)
		go func() { done <- h.Serve(l) }()
		transport := &http.Transport{TLSClientConfig: client, MaxIdleConnsPerHost: 8}
		c := http.Client{Transport: transport, Timeout: patience}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					resp, err := c.Post(scheme+l.Addr().String()+"/a", "text/plain", http.NoBody)
					if err != nil {
						t.Error(err)
						return
					}
					b, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if string(b) != "/a" || err != nil {
						t.Errorf("%q, %v", b, err)
					}
				}
			})
		}
		wg.Wait()
		transport.CloseIdleConnections() // the server would wait for connections without requests
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := h.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}

		eventually(t, "all have ended", func() bool { return s.Counters().Conns == 0 })
	}
}
