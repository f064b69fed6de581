package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/haul-project/haul/internal/certs"
)

// A client that trusts the certificate gets back what it sends. A client without TLS gets nothing
// back, and does not disturb others.
func TestTLSEcho(t *testing.T) {
	dir := t.TempDir()
	pair := certs.Pair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	own, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Create(own); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- serve(ctx, pair.Cert, pair.Key, "127.0.0.1:0", func(a string) { addr <- a }) }()
	to := <-addr
	plain, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Write([]byte("no TLS, but a line of text\n")); err != nil {
		t.Error(err)
	}
	if got, _ := io.ReadAll(plain); len(got) > 0 && got[0] != 21 { // an alert
		t.Errorf("without TLS: %q", got)
	}
	_ = plain.Close()

	pem, err := os.ReadFile(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	c, err := tls.Dial("tcp", to, &tls.Config{RootCAs: trusted})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Error(err)
	}
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_ = c.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
