package tcp_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/haul-project/haul/tcp"
)

func ExampleCertificates() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	// A first start, with a certificate of our own.
	pair := tcp.Pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	cert, err := tcp.SelfSigned("boot.example.org", "192.0.2.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := pair.Create(cert); err != nil {
		fmt.Println(err)
		return
	}

	// And from now on the files' current content.
	certs, err := tcp.NewCertificates(pair)
	if err != nil {
		fmt.Println(err)
		return
	}
	certs.Report = func(err error) { fmt.Println(err) }
	config := &tls.Config{GetCertificate: certs.GetCertificate}
	fmt.Println(config.GetCertificate != nil, certs.Warnings(), time.Until(certs.Expires()) > 364*24*time.Hour)
	// Output: true [] true
}
