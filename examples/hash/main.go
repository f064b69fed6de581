// Hash prints the SHA-256 of files on a web server, as sha256sum does. It writes no files: data
// goes into the hash as it arrives. An interrupted download is resumed over another connection.
//
//	go run ./examples/hash https://mirror.example/ debian.iso debian.iso.sig
//
// A file of sftpclient.Client is an io.Reader, and can be hashed in the same way.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"os/signal"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web/webclient"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: hash URL NAME...")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := hashAll(ctx, os.Args[1], os.Args[2:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// hashAll prints the SHA-256 of each named file. The names are relative to the URL.
func hashAll(ctx context.Context, url string, names []string, out io.Writer) error {
	server, err := webclient.New(url, webclient.Config{})
	if err != nil {
		return err
	}
	defer server.Close()
	for _, name := range names {
		sum, err := hash(ctx, server, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%x  %s\n", sum, name)
	}
	return nil
}

// hash returns the SHA-256 of a file, which it reads from beginning to end. It works with any
// store.
func hash(ctx context.Context, files store.Store, name string) ([]byte, error) {
	f, err := files.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, math.MaxInt64)); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}
