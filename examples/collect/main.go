// Collect takes uploads by TFTP into memory, and names and counts them as they
// arrive: what a program does that collects crash dumps or configurations. No
// byte touches the disk, and none is copied on its way from the server's buffer
// to the program.
//
//	go run ./examples/collect 127.0.0.1:6969
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync/atomic"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
)

// limit is what the files that arrive, and those not let go of, may take.
const limit = 1 << 30 // bytes

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: collect HOST:PORT")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := collect(ctx, os.Args[1], os.Stdout, nil); err != nil {
		log.Fatal(err)
	}
}

// collect serves until ctx ends. listening, if set, is called with the address.
func collect(ctx context.Context, addr string, out io.Writer, listening func(addr string)) error {
	var count atomic.Int64
	arrived := func(name string, f store.File) {
		defer f.Close() // gives its memory back
		info, err := f.Stat()
		if err != nil {
			return
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, io.NewSectionReader(f, 0, info.Size())); err != nil {
			return
		}
		fmt.Fprintf(out, "%d: %s, %d bytes, %.8x\n", count.Add(1), name, info.Size(), sum.Sum(nil))
	}
	s := tftp.Server{Store: store.Sink(limit, arrived), Upload: tftp.OverwriteUploads}
	l, err := s.Listen(ctx, addr)
	if err != nil {
		return err
	}
	if listening != nil {
		listening(l.Addr().String())
	}
	return l.Serve(ctx)
}
