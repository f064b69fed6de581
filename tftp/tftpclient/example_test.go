package tftpclient_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// serveFiles serves a store with one file on a free port.
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
	s := tftp.Config{Store: files, Upload: tftp.CreateUploads}
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

func ExampleClient_Get() {
	addr, stop := serveFiles()
	defer stop()
	target, err := tftpclient.ParseURL("tftp://" + addr + "/motd")
	if err != nil {
		panic(err)
	}
	here := store.Mem(0)
	ctx := context.Background()
	var c tftpclient.Client
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
	var c tftpclient.Client
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
	target, err := tftpclient.ParseURL("tftp://" + addr + "/log")
	if err != nil {
		panic(err)
	}
	var c tftpclient.Client
	text := strings.NewReader("all is well\n")
	res, err := c.Put(context.Background(), target, text, text.Size())
	fmt.Println(res.Bytes, err)

	_, err = c.Put(context.Background(), target, text, text.Size())
	if fault, ok := errors.AsType[*transfer.Error](err); ok {
		fmt.Println("refused:", fault.Code) // this server only accepts new files
	}
	// Output:
	// 12 <nil>
	// refused: file already exists
}
