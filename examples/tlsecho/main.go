// Tlsecho sends back what it receives over TLS. It is a starting point for a server of your own
// protocol.
//
//	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -subj /CN=localhost
//	go run ./examples/tlsecho cert.pem key.pem 127.0.0.1:7007
//	openssl s_client -quiet -connect 127.0.0.1:7007 -CAfile cert.pem
package main

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"time"

	"github.com/haul-project/haul/tcp"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: tlsecho CERT KEY HOST:PORT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3], nil); err != nil {
		log.Fatal(err)
	}
}

// serve runs the server until ctx is cancelled. If listening is not nil, serve calls it with the
// address of the server.
func serve(ctx context.Context, cert, key, addr string, listening func(addr string)) error {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return err
	}
	s := tcp.Server{
		TLS:         &tls.Config{Certificates: []tls.Certificate{pair}},
		IdleTimeout: time.Minute,
		MaxConns:    10_000,
		Handle:      func(_ context.Context, c net.Conn) { _, _ = io.Copy(c, c) }, // Handle may block
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
