package tcp_test

import (
	"crypto/tls"
	"fmt"
	"net/netip"
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

// A proxy written with this package sends a header before the client's own bytes.
func ExampleAppendProxyV2() {
	client, server := netip.MustParseAddrPort("192.0.2.1:50000"), netip.MustParseAddrPort("198.51.100.2:22")
	fmt.Printf("%q\n", tcp.AppendProxyV1(nil, client, server))
	fmt.Printf("%x\n", tcp.AppendProxyV2(nil, client, server))
	// Output:
	// "PROXY TCP4 192.0.2.1 198.51.100.2 50000 22\r\n"
	// 0d0a0d0a000d0a515549540a2111000cc0000201c6336402c3500016
}
