package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// certLife is how long a run's certificate is valid. It is longer than any run.
const certLife = 7 * 24 * time.Hour

// Loopback is the address at which TCP servers are measured.
var Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// NewCert makes a self-signed ECDSA P-256 certificate for an address. All servers use this kind of
// certificate. It returns the paths of the certificate and of its key, both in dir.
func NewCert(dir string, addr netip.Addr) (cert, key string, err error) {
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "cert.key")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make a certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	if err != nil {
		return "", "", fmt.Errorf("make a certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "bench"}, IPAddresses: []net.IP{addr.AsSlice()},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, // clients trust this certificate itself
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", fmt.Errorf("make a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("make a certificate: %w", err)
	}
	for _, f := range []struct {
		path, kind string
		content    []byte
		mode       os.FileMode
	}{{cert, "CERTIFICATE", signed, 0o644}, {key, "PRIVATE KEY", secret, 0o600}} {
		if err := os.WriteFile(f.path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.content}), f.mode); err != nil {
			return "", "", fmt.Errorf("make a certificate: %w", err)
		}
	}
	return cert, key, nil
}
