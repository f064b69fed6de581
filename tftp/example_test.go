package tftp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/transfer"
)

// serveFiles serves a store with one file on a port of the kernel's choice.
func serveFiles() (addr string, stop func()) {
	files := store.Mem(0)
	u, err := files.Create(context.Background(), "motd", store.Create{})
	if err != nil {
		panic(err)
	}
	if _, err := u.WriteAt([]byte("be well\n"), 0); err != nil {
		panic(err)
	}
	if err := u.Commit(); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := tftp.Server{Store: files, Upload: tftp.CreateUploads}
	l, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	done := make(chan error)
	go func() { done <- l.Serve(ctx) }()
	return l.Addr().String(), func() {
		cancel()
		if err := <-done; err != nil {
			panic(err)
		}
	}
}

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
	s := tftp.Server{Store: localdir.New(root)}
	l, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- l.Serve(ctx) }()

	var c tftp.Client
	res, err := c.GetFile(ctx, fmt.Sprintf("tftp://%v/kernel", l.Addr()), filepath.Join(dir, "copy"))
	fmt.Println(res.Bytes, "bytes", err)

	c.Wait() // the server may ask for the last acknowledgement again
	stop()   // what is under way may finish
	fmt.Println(<-ended)
	// Output:
	// 10000 bytes <nil>
	// <nil>
}

func ExampleClient_Get() {
	addr, stop := serveFiles()
	defer stop()
	target, err := tftp.ParseURL("tftp://" + addr + "/motd")
	if err != nil {
		panic(err)
	}
	here := store.Mem(0)
	ctx := context.Background()
	var c tftp.Client
	defer c.Wait()
	res, err := c.Get(ctx, target, func(size int64) (store.Upload, error) {
		fmt.Println("the server has", size, "bytes")
		return here.Create(ctx, "motd", store.Create{Size: size})
	})
	if err != nil {
		panic(err)
	}
	fmt.Println("got", res.Bytes)
	// Output:
	// the server has 8 bytes
	// got 8
}

func ExampleClient_GetFile() {
	addr, stop := serveFiles()
	defer stop()
	dir, err := os.MkdirTemp("", "tftp")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "motd")

	ctx := context.Background()
	var c tftp.Client
	defer c.Wait()
	if _, err := c.GetFile(ctx, "tftp://"+addr+"/motd", path); err != nil {
		panic(err)
	}
	b, err := os.ReadFile(path)
	fmt.Printf("%s%v\n", b, err)

	_, err = c.GetFile(ctx, "tftp://"+addr+"/missing", path)
	if fault, ok := errors.AsType[*transfer.Error](err); ok {
		fmt.Println("refused:", fault.Code)
	}
	// Output:
	// be well
	// <nil>
	// refused: file not found
}

func ExampleClient_Put() {
	addr, stop := serveFiles()
	defer stop()
	target, err := tftp.ParseURL("tftp://" + addr + "/log")
	if err != nil {
		panic(err)
	}
	var c tftp.Client
	text := strings.NewReader("all is well\n")
	res, err := c.Put(context.Background(), target, text, text.Size())
	fmt.Println(res.Bytes, err)

	_, err = c.Put(context.Background(), target, text, text.Size())
	if fault, ok := errors.AsType[*transfer.Error](err); ok {
		fmt.Println("refused:", fault.Code) // this server takes new files only
	}
	// Output:
	// 12 <nil>
	// refused: file already exists
}

// Answer requests from the program: here each client gets a file of its own.
func ExampleServer_read() {
	ctx, stop := context.WithCancel(context.Background())
	s := tftp.Server{
		Read: func(_ context.Context, r *tftp.Request) (store.File, error) {
			if r.Name != "config" {
				return nil, fs.ErrNotExist // ERROR 1 to the client
			}
			text := fmt.Sprintf("hostname lab-%v\n", r.Peer.Addr())
			return store.FromBytes(r.Name, []byte(text)), nil
		},
		Ended: func(t *tftp.Transfer) { fmt.Println(t.Direction(), t.Name, t.Outcome, t.Bytes) },
	}
	l, err := s.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- l.Serve(ctx) }()

	var c tftp.Client
	got := store.Sink(0, func(_ string, f store.File) {
		defer f.Close()
		text, _ := io.ReadAll(io.NewSectionReader(f, 0, 1<<10))
		fmt.Printf("%s", text)
	})
	for _, name := range []string{"config", "secret"} {
		_, err := c.Get(ctx, tftp.Target{Host: "127.0.0.1", Port: l.Addr().Port(), Name: name}, func(int64) (store.Upload, error) {
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
