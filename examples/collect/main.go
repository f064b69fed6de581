// Collect receives the configurations that switches send by TFTP ("copy running-config
// tftp://HOST/config"), and prints which of them are new or have changed. They stay in memory: they
// are never written to a disk, and not copied between the server's buffer and the program.
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
	"path"
	"sync"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
)

const (
	limit    = 1 << 30 // most bytes of all files that are arriving or still open
	maxKnown = 1 << 16 // most files that are remembered; a bound is needed, because clients choose the names
)

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

// collect receives files until ctx is cancelled. If listening is not nil, collect calls it with the
// address of the server.
func collect(ctx context.Context, addr string, out io.Writer, listening func(addr string)) error {
	c := &collector{out: out, known: map[string][sha256.Size]byte{}}
	files := store.Sink(limit, c.arrived)
	s := tftp.Config{Write: func(ctx context.Context, r *tftp.Request) (store.Upload, error) {
		name, err := store.CleanName(r.Name)
		if err != nil {
			return nil, err
		}
		// Give each switch its own directory, as all may use the same name.
		return files.Create(ctx, path.Join(r.Peer.Addr().Unmap().String(), name), r.Create())
	}}
	l, err := s.Listen(ctx, addr)
	if err != nil {
		return err
	}
	if listening != nil {
		listening(l.Addr().String())
	}
	return l.Serve(ctx)
}

// A collector remembers the hash of the last content of each file.
type collector struct {
	out   io.Writer
	mu    sync.Mutex
	count int                          // number of files received; guarded by mu
	known map[string][sha256.Size]byte // hash of the last content of each file, by name; guarded by mu
}

// arrived handles a complete file. The switch waits until it returns, so slow work should run in
// another goroutine.
func (c *collector) arrived(name string, f store.File) {
	defer f.Close() // frees its memory
	info, err := f.Stat()
	if err != nil {
		return
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	c.mu.Lock()
	defer c.mu.Unlock()
	state, last := "new", c.known[name]
	switch {
	case last == sum:
		state = "the same"
	case last != [sha256.Size]byte{}:
		state = "changed"
	case len(c.known) == maxKnown:
		clear(c.known)
	}
	c.known[name] = sum
	c.count++
	fmt.Fprintf(c.out, "%d: %q is %s, %d bytes, %.8x\n", c.count, name, state, info.Size(), sum)
}
