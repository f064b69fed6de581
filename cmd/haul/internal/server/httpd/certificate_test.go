package httpd

import (
	"crypto/tls"
	"testing"
)

// The metrics show when the server's own certificate expires.
func TestOwnCertificateExpires(t *testing.T) {
	config, expires, err := ownCertificate(t.TempDir(), nil, nil, func(string, ...any) {})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := config.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	if got := expires(); !got.Equal(cert.Leaf.NotAfter) {
		t.Errorf("it expires %v, want %v", got, cert.Leaf.NotAfter)
	}
}
