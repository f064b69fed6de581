package tftp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// Serve a directory, and fetch a file from it.
func Example() {
	dir, err := os.MkdirTemp("", "tftp")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "kernel"), make([]byte, 10_000), 0o644); err != nil {
		panic(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		panic(err)
	}
	defer root.Close()

	// ListenAndServe(ctx, ":69") does these two steps in one.
	ctx, stop := context.WithCancel(context.Background())
	s := tftp.Config{Store: localdir.New(root)}
	l, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- l.Serve(ctx) }()

	var c tftpclient.Client
	res, err := c.GetFile(ctx, fmt.Sprintf("tftp://%v/kernel", l.Addr()), filepath.Join(dir, "copy"))
	fmt.Println(res.Bytes, "bytes", err)

	c.Wait() // the server may still repeat its last block, if the last ACK was lost
	stop()   // running transfers may finish
	fmt.Println(<-ended)
	// Output:
	// 10000 bytes <nil>
	// <nil>
}

// Answer requests from the program: here each client gets a file of its own.
func ExampleServer_read() {
	ctx, stop := context.WithCancel(context.Background())
	s := tftp.Config{
		Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
			if r.Name != "config" {
				return nil, fs.ErrNotExist // ERROR 1 to the client
			}
			text := fmt.Sprintf("hostname lab-%v\n", r.Peer.Addr())
			return store.FromBytes(r.Name, []byte(text)), nil
		},
		Hooks: tftp.Hooks{Ended: func(t *tftp.Transfer) { fmt.Println(t.Direction(), t.Name, t.Outcome, t.Bytes) }},
	}
	l, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- l.Serve(ctx) }()

	var c tftpclient.Client
	got := store.Sink(0, func(_ string, f store.File) {
		defer f.Close()
		text, _ := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
		fmt.Printf("%s", text)
	})
	for _, name := range []string{"config", "secret"} {
		_, err := c.Get(ctx, tftpclient.Target{Host: "127.0.0.1", Port: l.Addr().Port(), Name: name}, func(int64) (store.Upload, error) {
			return got.Create(ctx, name, store.Create{})
		})
		if fault, ok := errors.AsType[*transfer.Error](err); ok {
			fmt.Println(fault.Message)
		}
	}
	c.Wait()
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Unordered output:
	// hostname lab-127.0.0.1
	// read config done 23
	// file not found
	// read secret refused 0
}
