package storetest

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/haul-project/haul/store"
)

// testTryReadAt checks TryReadAt. A store whose files are not TryReaders passes.
func testTryReadAt(t *testing.T, st store.Store) {
	const size = 100_000
	data := pattern(size, 9)
	Put(t, st, "f", string(data))
	f := open(t, st, "f")
	r, ok := store.As[store.TryReader](f)
	if !ok {
		return
	}
	tests := []struct {
		name string
		off  int64
		bufs [][]byte
	}{
		{"one", 0, buffers(size)},
		{"two", 100, buffers(10, 20)},
		{"empty ones", 5, buffers(0, 7, 0, 0, 8, 0)},
		{"past the end", size - 10, buffers(4, 4, 4)},
		{"very many", 1, buffers(slices.Repeat([]int{13}, 5000)...)},
		{"very many empty", 1, buffers(append(make([]int, 3000), 5)...)},
	}
	for _, tt := range tests {
		if !tryAll(t, f, r, tt.bufs, tt.off) {
			return // the file system does not support TryReadAt
		}
		want := data[tt.off:min(size, int(tt.off)+len(bytes.Join(tt.bufs, nil)))]
		if got := bytes.Join(tt.bufs, nil)[:len(want)]; !bytes.Equal(got, want) {
			t.Errorf("%s: TryReadAt read other bytes than were written", tt.name)
		}
	}
	for _, off := range []int64{size, size + 1, 1 << 40} {
		if n, err := r.TryReadAt(buffers(10), off); n != 0 || err != io.EOF {
			t.Errorf("TryReadAt(%d) = %d, %v, want io.EOF", off, n, err)
		}
	}
	for _, bufs := range [][][]byte{nil, buffers(0), buffers(0, 0)} {
		if n, err := r.TryReadAt(bufs, size); n != 0 || err != nil {
			t.Errorf("TryReadAt of nothing = %d, %v", n, err)
		}
	}
	if _, err := r.TryReadAt(buffers(1), -1); err == nil || err == io.EOF {
		t.Errorf("TryReadAt(-1): %v, want an error", err)
	}
}

// tryAll fills bufs as a server's loop would: bytes that TryReadAt does not return are read with
// ReadAt. It returns false if TryReadAt is not supported.
func tryAll(t *testing.T, f store.File, r store.TryReader, bufs [][]byte, off int64) bool {
	t.Helper()
	for len(bufs) > 0 {
		n, err := r.TryReadAt(bufs, off)
		if errors.Is(err, errors.ErrUnsupported) {
			return false
		}
		if err == io.EOF {
			return true
		}
		if errors.Is(err, store.ErrWouldBlock) {
			n, err = f.ReadAt(bufs[0], off)
		}
		if err != nil && err != io.EOF {
			t.Fatalf("reading at %d: %v", off, err)
		}
		off += int64(n)
		bufs = skip(bufs, n)
	}
	return true
}

// skip returns bufs without their first n bytes. It does not change bufs itself.
func skip(bufs [][]byte, n int) [][]byte {
	for len(bufs) > 0 && n >= len(bufs[0]) {
		n -= len(bufs[0])
		bufs = bufs[1:]
	}
	if n > 0 {
		bufs = append([][]byte{bufs[0][n:]}, bufs[1:]...)
	}
	return bufs
}

func buffers(sizes ...int) [][]byte {
	bufs := make([][]byte, len(sizes))
	for i, n := range sizes {
		bufs[i] = make([]byte, n)
	}
	return bufs
}
