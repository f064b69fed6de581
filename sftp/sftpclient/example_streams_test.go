package sftpclient_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"

	"github.com/haul-project/haul/sftp/sftpclient"
)

// dialMemory returns a client of a server in memory, and a function that stops both.
func dialMemory(ctx context.Context) (*sftpclient.Client, func()) {
	addr, config, stop := serveMemory()
	c, err := sftpclient.Dial(ctx, addr, config, sftpclient.Config{})
	if err != nil {
		panic(err)
	}
	return c, func() {
		_ = c.Close()
		stop()
	}
}

// io.Copy writes a stream to a file and reads it back. Many requests are in flight in both
// directions, because File is an io.ReaderFrom and an io.WriterTo.
func ExampleFile_streaming() {
	ctx := context.Background()
	c, stop := dialMemory(ctx)
	defer stop()

	const size = 8 << 20
	sent := sha256.New()
	source := io.TeeReader(io.LimitReader(repeat("All the news that fits. "), size), sent)
	w, err := c.Create(ctx, "stream")
	if err != nil {
		fmt.Println(err)
		return
	}
	n, err := io.Copy(w, source)
	fmt.Println("wrote", n, err)
	fmt.Println("closed:", w.Close()) // only now is it certain that all data has arrived

	r, err := c.Open(ctx, "stream")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	received := sha256.New()
	n, err = io.Copy(received, r)
	fmt.Println("read", n, err)
	fmt.Println("the same:", bytes.Equal(sent.Sum(nil), received.Sum(nil)))
	// Output:
	// wrote 8388608 <nil>
	// closed: <nil>
	// read 8388608 <nil>
	// the same: true
}

// A program that reads and writes a line at a time need not wait for a round trip each time,
// because File writes behind and reads ahead.
func ExampleFile_smallBuffers() {
	ctx := context.Background()
	c, stop := dialMemory(ctx)
	defer stop()

	f, err := c.Create(ctx, "lines")
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range 20_000 {
		if _, err := fmt.Fprintf(f, "line %d\n", i); err != nil { // the error may come from an earlier line
			fmt.Println(err)
			return
		}
	}
	if err := f.Close(); err != nil {
		fmt.Println(err)
		return
	}

	if f, err = c.Open(ctx, "lines"); err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	lines, last := 0, ""
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		last = s.Text()
	}
	fmt.Println(lines, "lines, the last is", last)
	// Output:
	// 20000 lines, the last is line 19999
}

// Any number of goroutines may use one Client. Each request is sent at once, without waiting for
// earlier answers. Here 100 directories are made, described, renamed and removed together, while a
// file is written at many offsets at once. If a context ends, only the wait for that answer ends.
func ExampleClient_asynchronous() {
	ctx := context.Background()
	c, stop := dialMemory(ctx)
	defer stop()
	f, err := c.Create(ctx, "file")
	if err != nil {
		fmt.Println(err)
		return
	}

	const n = 100
	var commands sync.WaitGroup
	errs := make(chan error, 2*n)
	for i := range n {
		commands.Go(func() {
			name := fmt.Sprintf("dir%d", i)
			err := c.Mkdir(ctx, name, 0o755)
			if err == nil {
				_, err = c.Stat(ctx, name)
			}
			if err == nil {
				err = c.Rename(ctx, name, name+"-renamed")
			}
			if err == nil && i%2 == 1 {
				err = c.RemoveDir(ctx, name+"-renamed")
			}
			errs <- err
		})
		commands.Go(func() {
			_, err := f.WriteAt([]byte{byte(i)}, int64(i))
			errs <- err
		})
	}
	commands.Wait()
	for range cap(errs) {
		if err := <-errs; err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("file closed:", f.Close())
	entries, err := c.ReadDir(ctx, ".")
	fmt.Println(len(entries), "entries", err)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = c.Stat(ended, "file")
	fmt.Println(err)
	fi, err := c.Stat(ctx, "file")
	if err == nil {
		fmt.Println("bytes:", fi.Size())
	}
	// Output:
	// file closed: <nil>
	// 51 entries <nil>
	// stat file: context canceled
	// bytes: 100
}

// A repeat is a reader that repeats a text endlessly.
type repeat string

func (r repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], r)
	}
	return n, nil
}
