package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/haul-project/haul/tftp/tftpclient"
)

// A shared buffer: several files may arrive at the same time.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// Three files arrive at the same time. Then one of them arrives again, once unchanged and once
// changed.
func TestCollect(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out shared
	addr := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- collect(ctx, "127.0.0.1:0", &out, func(a string) { addr <- a }) }()
	base := "tftp://" + <-addr + "/"

	var c tftpclient.Client
	var mu sync.Mutex
	var want []string // guarded by mu
	put := func(name, state string, b []byte) {
		target, err := tftpclient.ParseURL(base + name)
		if err == nil {
			_, err = c.Put(ctx, target, bytes.NewReader(b), int64(len(b)))
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		want = append(want, fmt.Sprintf("%q is %s, %d bytes, %.8x\n", "127.0.0.1/"+name, state, len(b), sha256.Sum256(b)))
	}
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 1_000_000+i) }
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { put(fmt.Sprintf("file%d", i), "new", content(i)) })
	}
	wg.Wait()
	put("file0", "the same", content(0))
	put("file0", "changed", content(3))
	c.Wait()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got := out.b.String()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no line %q in\n%s", w, got)
		}
	}
	if n := strings.Count(got, "\n"); n != len(want) || !strings.Contains(got, "\n5: ") {
		t.Errorf("%d lines for %d files:\n%s", n, len(want), got)
	}
}
