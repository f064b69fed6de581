package localdir_test

import (
	"io"
	"testing"

	"github.com/haul-project/haul/store"
)

// OpenPart returns a file of the system whose offset is at the requested bytes. A file in memory
// has no such file.
func TestOpenPart(t *testing.T) {
	_, d := tempDir(t)
	for _, st := range []store.Store{d, store.Mem(0)} {
		if err := upload(t, st, "f", "content", store.Create{}); err != nil {
			t.Fatal(err)
		}
		f, err := st.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		parts, ok := store.As[store.PartOpener](f)
		if ok != (st == store.Store(d)) {
			t.Errorf("%T has parts: %v", st, ok)
		}
		if !ok {
			continue
		}
		part, n, end, ok := parts.OpenPart(3, 4)
		if !ok || n != 4 {
			t.Fatalf("%d, %v", n, ok)
		}
		if b, err := io.ReadAll(part); err != nil || string(b) != "tent" {
			t.Errorf("%q, %v", b, err)
		}
		end()
	}
}
