package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"os"
	"time"
)

// selfSignedFor is how long a self-signed certificate is valid. A server that runs longer should
// have a proper certificate by then.
const selfSignedFor = 365 * 24 * time.Hour

// SelfSigned makes a self-signed certificate for a first start. It is valid for a year, for the
// given host names, wildcards and IP addresses, and has a new ECDSA key on P-256. Clients do not
// trust it unless they are configured to. It is only in memory; [Pair.Create] writes it to files.
func SelfSigned(hosts ...string) (tls.Certificate, error) {
	cert, err := selfSigned(time.Now(), hosts)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return cert, nil
}

func selfSigned(now time.Time, hosts []string) (tls.Certificate, error) {
	if len(hosts) == 0 {
		return tls.Certificate{}, errors.New("it needs the name or the address of a host")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	// RFC 5280 §4.1.2.2: the serial number must be positive and must not have been used before.
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)),
		Subject:               pkix.Name{CommonName: hosts[0]},
		NotBefore:             now.Add(-time.Hour), // for clients whose clock is slow
		NotAfter:              now.Add(selfSignedFor),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if len(hosts[0]) > 64 { // RFC 5280 appendix A.1, ub-common-name
		template.Subject.CommonName = ""
	}
	for _, host := range hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, ip.WithZone("").AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// Create writes a certificate and its key to the two files, neither of which may exist. Only the
// owner can read the key.
func (p Pair) Create(cert tls.Certificate) error {
	der, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return fmt.Errorf("write key %s: %w", p.Key, err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	var chain []byte
	for _, der := range cert.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	if p.Cert == p.Key {
		return createFile(p.Key, append(key, chain...), 0o600)
	}
	if err := createFile(p.Key, key, 0o600); err != nil {
		return err
	}
	if err := createFile(p.Cert, chain, 0o644); err != nil {
		return errors.Join(err, os.Remove(p.Key))
	}
	return nil
}

// createFile writes a file that does not exist yet. The file is complete or absent.
func createFile(path string, text []byte, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
