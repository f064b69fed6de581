package webclient

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// If a server rejects this client's TLS, or does not use TLS, the client does not try again: the
// result would be the same, and no connection was lost.
func TestDisagreesOnTLS(t *testing.T) {
	for name, c := range map[string]struct {
		server *tls.Config // nil for a server without TLS
		client *tls.Config
		want   string
	}{
		"no TLS":                 {nil, &tls.Config{}, "HTTP response to HTTPS client"},
		"a client's certificate": {&tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}, &tls.Config{}, "handshake failure"},
		"versions":               {&tls.Config{MinVersion: tls.VersionTLS13}, &tls.Config{MaxVersion: tls.VersionTLS12}, "protocol version"},
		"protocols":              {&tls.Config{NextProtos: []string{"other"}}, &tls.Config{}, "no application protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			var conns atomic.Int64
			s := httptest.NewUnstartedServer(http.NotFoundHandler())
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			if s.TLS = c.server; c.server == nil {
				s.Start()
			} else {
				s.StartTLS()
			}
			defer s.Close()
			c.client.InsecureSkipVerify = true
			client, err := New("https"+s.URL[strings.IndexByte(s.URL, ':'):], Config{
				TLS: c.client, Reconnecting: func(err error, _ time.Duration) { t.Errorf("it tries again: %v", err) },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Open(t.Context(), "f")
			if err == nil || errors.Is(err, ErrLost) || !IsRemote(err) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want an error with %q", err, c.want)
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// A TLS alert is either a decision, or an accident of one connection, so that another try may
// succeed.
func TestAlerts(t *testing.T) {
	for text, again := range map[string]bool{
		"tls: certificate required":        false,
		"tls: unknown certificate":         false,
		"tls: no application protocol":     false,
		"tls: bad record MAC":              true,
		"tls: internal error":              true,
		"tls: user canceled":               true,
		"tls: unexpected message":          true,
		"connection reset by peer":         true,
		"tls: error decrypting message":    true,
		"tls: insufficient security level": false,
	} {
		err := plainError(&url.Error{Op: "Get", URL: "https://h/", Err: &net.OpError{Op: "remote error", Err: errors.New(text)}})
		if isLoss(err) != again {
			t.Errorf("%v: to be tried again: %v", err, !again)
		}
	}
	if !isLoss(&net.OpError{Op: "read", Err: errors.New("certificate")}) {
		t.Error("what is no alert is taken for one")
	}
	if isLoss(errors.New("tls: server selected unsupported protocol version 302")) {
		t.Error("a version that is not spoken is asked for again")
	}
}
