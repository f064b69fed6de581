// Tlsecho sends back what it receives over TLS: a server for a protocol of one's own begins
// like this. If there is no certificate yet it makes one. A certificate that is replaced
// while it runs, as by an ACME client, counts from the next connection on.
//
//	go run ./examples/tlsecho cert.pem key.pem 127.0.0.1:7007
//	openssl s_client -quiet -connect 127.0.0.1:7007 -CAfile cert.pem
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/tcp/certs"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: tlsecho CERT KEY HOST:PORT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, certs.Pair{Cert: os.Args[1], Key: os.Args[2]}, os.Args[3], nil); err != nil {
		log.Fatal(err)
	}
}

// serve serves until ctx ends. listening, if set, is called with the address.
func serve(ctx context.Context, pair certs.Pair, addr string, listening func(addr string)) error {
	if _, err := os.Stat(pair.Cert); errors.Is(err, fs.ErrNotExist) {
		cert, err := certs.SelfSigned("localhost", "127.0.0.1")
		if err != nil {
			return err
		}
		if err := pair.Create(cert); err != nil {
			return err
		}
	}
	set, err := certs.Load(pair)
	if err != nil {
		return err
	}
	set.Report = func(err error) { log.Print(err) }
	s := tcp.Server{
		TLS:         &tls.Config{GetCertificate: set.GetCertificate},
		IdleTimeout: time.Minute,
		MaxConns:    10_000,
		Handle:      func(_ context.Context, c net.Conn) { _, _ = io.Copy(c, c) }, // it may block
	}
	socket, err := tcp.Listen(ctx, addr, tcp.Options{})
	if err != nil {
		return err
	}
	if listening != nil {
		listening(socket.Addr().String())
	}
	return s.Serve(ctx, socket)
}
