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

// A shared buffer: several files may arrive at once.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// Three files at once, as in the experiment that this program comes from.
func TestCollect(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out shared
	addr := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- collect(ctx, "127.0.0.1:0", &out, func(a string) { addr <- a }) }()
	base := "tftp://" + <-addr + "/"

	var c tftpclient.Client
	var wg sync.WaitGroup
	var want []string
	for i := range 3 {
		b := bytes.Repeat([]byte{byte('a' + i)}, 1_000_000+i)
		name := fmt.Sprintf("file%d", i)
		want = append(want, fmt.Sprintf("%s, %d bytes, %.8x", name, len(b), sha256.Sum256(b)))
		target, err := tftpclient.ParseURL(base + name)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if _, err := c.Put(ctx, target, bytes.NewReader(b), int64(len(b))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
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
	if n := strings.Count(got, "\n"); n != 3 || !strings.Contains(got, "3: ") {
		t.Errorf("%d lines for 3 files:\n%s", n, got)
	}
}
