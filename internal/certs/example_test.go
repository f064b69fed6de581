package certs_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/haul-project/haul/internal/certs"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	// A first start, with a certificate of our own.
	pair := certs.Pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	cert, err := certs.SelfSigned("boot.example.org", "192.0.2.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := pair.Create(cert); err != nil {
		fmt.Println(err)
		return
	}

	// From now on, handshakes use the files' current content.
	set, err := certs.Load(pair)
	if err != nil {
		fmt.Println(err)
		return
	}
	set.Report = func(err error) { fmt.Println(err) }
	config := &tls.Config{GetCertificate: set.GetCertificate}
	fmt.Println(config.GetCertificate != nil, set.Warnings(), time.Until(set.Expires()) > 364*24*time.Hour)
	// Output: true [] true
}
