package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
)

// A load is what all servers are measured with.
type load struct {
	name   string
	write  bool
	files  int // at the same time
	size   int // bytes each
	client func() *tftp.Client
	blocks int // bytes a block
}

func (l load) block() int { return l.blocks }

// loads are the first ones to compare: what a boot ROM does, and a window.
var loads = []load{
	{name: "3 x 10 MB down, 512 B lock-step", files: 3, size: 10_000_000, blocks: 512, client: plain},
	{name: "3 x 10 MB up, 512 B lock-step", files: 3, size: 10_000_000, blocks: 512, write: true, client: plain},
	{name: "64 MB down, blksize 1468 windowsize 64", files: 1, size: 64_000_000, blocks: 1468, client: windowed},
}

func plain() *tftp.Client    { return &tftp.Client{NoOptions: true} }
func windowed() *tftp.Client { return &tftp.Client{BlockSize: 1468, Window: 64} }

// fileName names a file by its size.
func fileName(size int) string { return fmt.Sprintf("file%d", size) }

// makeFiles writes a file of each size that the loads need, and files to
// overwrite, since in.tftpd creates none without being told.
func makeFiles(dir string) (map[int][]byte, error) {
	files := make(map[int][]byte)
	random := rand.NewChaCha8([32]byte{1})
	for _, l := range loads {
		if files[l.size] != nil {
			continue
		}
		b := make([]byte, l.size)
		_, _ = random.Read(b) // never fails
		files[l.size] = b
		if err := os.WriteFile(filepath.Join(dir, fileName(l.size)), b, 0o644); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// run moves the load's files once; a warm-up moves only one.
func (l load) run(ctx context.Context, server netip.AddrPort, files map[int][]byte, warmUp bool) error {
	n := l.files
	if warmUp {
		n = 1
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = l.move(ctx, server, files[l.size], i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// move moves one file.
func (l load) move(ctx context.Context, server netip.AddrPort, want []byte, i int) error {
	t := tftp.Target{Host: server.Addr().String(), Port: server.Port(), Name: fileName(l.size)}
	if l.write {
		t.Name = fmt.Sprintf("up%d", i)
		_, err := l.client().Put(ctx, t, bytes.NewReader(want), int64(len(want)))
		return err
	}
	_, err := l.client().Get(ctx, t, func(int64) (store.Upload, error) { return &checker{want: want}, nil })
	return err
}

// A checker compares what arrives with what was sent, and keeps nothing.
type checker struct {
	want []byte
	got  int
}

func (c *checker) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > int64(len(c.want)) || !bytes.Equal(p, c.want[off:off+int64(len(p))]) {
		return 0, fmt.Errorf("wrong bytes at %d", off)
	}
	c.got += len(p)
	return len(p), nil
}

func (c *checker) Truncate(size int64) error {
	if size != int64(len(c.want)) {
		return fmt.Errorf("%d bytes instead of %d", size, len(c.want))
	}
	return nil
}

func (c *checker) Commit() error {
	if c.got != len(c.want) {
		return fmt.Errorf("%d bytes instead of %d", c.got, len(c.want))
	}
	return nil
}

func (c *checker) Close() error { return nil }
