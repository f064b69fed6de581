// Bucket serves the files of an S3 bucket over TFTP, for machines that boot from files in a bucket.
// Endpoint and keys come from the same places as for the AWS tools.
//
//	go run ./examples/bucket s3://images/boot 127.0.0.1:6969
//
// Each request of a machine causes a request to the bucket. With package store/cache in between,
// each file would be fetched only once for all machines.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/haul-project/haul/store/s3"
	"github.com/haul-project/haul/tftp"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: bucket s3://BUCKET/PREFIX HOST:PORT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2], s3.Config{}, nil); err != nil {
		log.Fatal(err)
	}
}

// serve serves the bucket over TFTP until ctx is cancelled. If listening is not nil, serve calls it
// with the address of the server.
func serve(ctx context.Context, url, addr string, c s3.Config, listening func(addr string)) error {
	bucket, prefix, err := s3.ParseURL(url)
	if err != nil {
		return err
	}
	files, err := s3.New(bucket, prefix, c)
	if err != nil {
		return err
	}
	defer files.Close()
	s := tftp.Config{Store: files} // Upload is not set, so clients can only read
	l, err := s.Listen(ctx, addr)
	if err != nil {
		return err
	}
	if listening != nil {
		listening(l.Addr().String())
	}
	return l.Serve(ctx)
}
