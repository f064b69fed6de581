package tftp

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// Finished uploads that only answer repeats do not prevent other transfers. Their number is
// bounded, and they keep no file open.
func TestDallyingUploads(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) { s.MaxTransfers = 2 }, func(w *simWorld) {
		b := tftptest.Content("new", 3000)
		for i := range 9 {
			_, err := w.client().Put(context.Background(), target(fmt.Sprint("up", i)), bytes.NewReader(b), int64(len(b)))
			if err != nil {
				t.Fatalf("upload %d: %v", i, err)
			}
			synctest.Wait()
			if n := w.server.dallying.Load(); n != min(2, int64(i+1)) {
				t.Errorf("%d uploads dally after %d", n, i+1)
			}
		}
		if n := w.disk.Unclosed(); n != 0 {
			t.Errorf("%d files open while uploads dally", n)
		}
	})
}
