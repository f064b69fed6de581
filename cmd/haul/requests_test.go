package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
)

// A sizesTree records how many bytes each request reads or writes.
type sizesTree struct {
	store.Tree
	mu    sync.Mutex
	sizes map[int]int // guarded by mu: number of requests of each size in bytes
}

func (s *sizesTree) note(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes[n]++
}

// take returns the most frequent request size, and clears the record.
func (s *sizesTree) take() (size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, times := range s.sizes {
		if times > s.sizes[size] {
			size = n
		}
	}
	clear(s.sizes)
	return size
}

func (s *sizesTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := s.Tree.OpenFile(ctx, name, a)
	return sizesHandle{h, s}, err
}

type sizesHandle struct {
	store.Handle
	tree *sizesTree
}

func (h sizesHandle) ReadAt(p []byte, off int64) (int, error) {
	h.tree.note(len(p))
	return h.Handle.ReadAt(p, off)
}

func (h sizesHandle) WriteAt(p []byte, off int64) (int, error) {
	h.tree.note(len(p))
	return h.Handle.WriteAt(p, off)
}

// -B and -R take effect: requests have the given size, and -R 1 sends one at a time.
func TestRequestFlags(t *testing.T) {
	tree := &sizesTree{sizes: map[int]int{}}
	content := strings.Repeat("0123456789", 100_000)
	l := startLabWith(t, labOptions{tree: func(t store.Tree) store.Tree { tree.Tree = t; return tree }}, map[string]string{"f": content})
	for _, c := range []struct {
		flags string
		size  int
	}{
		{"", 255 << 10}, {"-B 4096", 4096}, {"-B 10k", 10 << 10}, {"--request-size 32KiB", 32 << 10}, {"-B 255K", 255 << 10},
		{"-R 1 -B 8k", 8 << 10}, {"-R 4096 -B 8k", 8 << 10}, {"--requests 3", 255 << 10},
	} {
		here := t.TempDir()
		words := strings.Fields(c.flags)
		code, _, msg := l.haul(append([]string{"get"}, append(words, "lab:f", here)...)...)
		if got := tree.take(); code != 0 || got != c.size {
			t.Errorf("get %s: exit code %d, requests of %d bytes, want %d; %s", c.flags, code, got, c.size, msg)
		}
		wantFile(t, filepath.Join(here, "f"), content)
		code, _, msg = l.haul(append([]string{"put", "--in-place"}, append(words, filepath.Join(here, "f"), "lab:g")...)...)
		if got := tree.take(); code != 0 || got != c.size {
			t.Errorf("put %s: exit code %d, requests of %d bytes, want %d; %s", c.flags, code, got, c.size, msg)
		}
		wantFile(t, filepath.Join(l.dir, "g"), content)
	}
}
