package storetest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"sync"
	"testing"

	"github.com/haul-project/haul/store"
)

// readWays returns functions that read p from f at off: one for each method of reading that f
// supports.
func readWays(f store.File) map[string]func(p []byte, off int64) (int, error) {
	ways := map[string]func(p []byte, off int64) (int, error){"ReadAt": f.ReadAt}
	if r, ok := store.As[store.TryReader](f); ok {
		ways["TryReadAt"] = func(p []byte, off int64) (int, error) { return r.TryReadAt([][]byte{p}, off) }
	}
	return ways
}

// testClosed checks that files and handles cannot be read after they were closed.
func testClosed(t *testing.T, st store.Store) {
	for _, size := range []int{0, 100, 1 << 20} {
		Put(t, st, "f", string(pattern(size, 4)))
		f := open(t, st, "f")
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		Put(t, st, "f", "")
		for way, read := range readWays(f) {
			n, err := read(make([]byte, 10), 0)
			if n != 0 || !errors.Is(err, fs.ErrClosed) && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("%s after Close = %d, %v, want fs.ErrClosed", way, n, err)
			}
		}
	}
}

// testCloseWhileReading closes files while goroutines read them. By then, their names belong to
// other content. Each read must return the content of its own file, or fs.ErrClosed.
func testCloseWhileReading(t *testing.T, st store.Store) {
	const rounds, size = 6, 300_000
	for round := range rounds {
		want := pattern(size, byte(round))
		Put(t, st, "f", string(want))
		f := open(t, st, "f")
		u := create(t, st, "f", store.Create{})
		write(t, u, pattern(size, byte(round+1)), 0)
		commit(t, u)
		var readers, begun sync.WaitGroup
		for way, read := range readWays(f) {
			begun.Add(1)
			readers.Go(func() {
				p := make([]byte, size)
				for first := true; ; first = false {
					n, err := read(p, 0)
					if !bytes.Equal(p[:n], want[:n]) {
						t.Errorf("%s read other content than the file's", way)
					}
					if first {
						begun.Done()
					}
					if errors.Is(err, fs.ErrClosed) || errors.Is(err, errors.ErrUnsupported) {
						return
					}
					if err != nil && err != io.EOF && !errors.Is(err, store.ErrWouldBlock) {
						t.Errorf("%s: %v", way, err)
						return
					}
				}
			})
		}
		begun.Wait()
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		readers.Wait()
	}
}
