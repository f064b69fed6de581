// Readthrough serves the files of a web server over TFTP. It fetches a file when the first machine
// requests it, and keeps it in a directory for all other machines. So machines of a branch office
// can boot from a remote mirror, and each file crosses the line once.
//
//	go run ./examples/readthrough https://mirror.example/boot/ /var/cache/boot 127.0.0.1:6969
//
// With the store of examples/bucket in place of the web client, it serves an S3 bucket.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/haul-project/haul/store/cache"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/web/webclient"
)

const (
	size  = 20 << 30           // most bytes of the files kept on the disk
	fresh = time.Minute        // how long a file is served without asking the web server whether it has changed
	stale = 7 * 24 * time.Hour // how much longer a file is served while the web server cannot be reached
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: readthrough URL DIR HOST:PORT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], os.Args[3], nil); err != nil {
		log.Fatal(err)
	}
}

// serve runs the server until ctx is cancelled. If listening is not nil, serve calls it with the
// address of the server.
func serve(ctx context.Context, url, dir, addr string, listening func(addr string)) error {
	source, err := webclient.New(url, webclient.Config{})
	if err != nil {
		return err
	}
	defer source.Close()
	kept, err := cache.Open(cache.Config{Dir: dir, Size: size, Fresh: fresh, Stale: stale, Log: slog.Default()})
	if err != nil {
		return err
	}
	defer kept.Close()
	s := tftp.Config{Store: kept.Store(url, source), Log: slog.Default()} // Upload is not set, so clients can only read
	l, err := s.Listen(ctx, addr)
	if err != nil {
		return err
	}
	if listening != nil {
		listening(l.Addr().String())
	}
	return l.Serve(ctx)
}
