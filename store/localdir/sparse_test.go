package localdir_test

import (
	"bytes"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
)

// TestDirSparseCalls counts the system calls for a write. storetest checks that the content is
// right.
func TestDirSparseCalls(t *testing.T) {
	const page = 4096
	data, zeros := bytes.Repeat([]byte{1}, 4*page), make([]byte, 4*page)
	lateData := append(make([]byte, page-1), 1) // zeros except for its last byte
	type write struct {
		p     []byte
		off   int64
		calls int
	}
	tests := []struct {
		name   string
		writes []write
	}{
		{"data", []write{{data, 0, 1}, {data, 4 * page, 1}}},
		{"odd data", []write{{data[:1428], 0, 1}, {data[:1428], 1428, 1}, {data, 2856, 1}}},
		{"zeros", []write{{zeros, 0, 0}, {zeros, 4 * page, 0}}},
		{"odd zeros", []write{{data[:100], 0, 1}, {zeros[:1428], 100, 0}, {zeros, 1528, 0}}},
		{"zeros first", []write{{slices.Concat(zeros, data), 0, 1}}},
		{"zeros last", []write{{slices.Concat(data, zeros), 0, 1}}},
		{"zeros between", []write{{slices.Concat(data, zeros, data), 0, 2}}},
		{"zeros between, less than a page", []write{{slices.Concat(data, zeros[:page-1], data), 0, 1}}},
		{"zeros between, across pages", []write{{slices.Concat(data[:100], zeros[:page], data[:100]), 0, 1}}},
		{"one byte", []write{{lateData, 0, 1}, {slices.Concat(zeros, lateData), 4 * page, 1}}},
		{"zeros over data", []write{{data, 0, 1}, {zeros[:page], page, 1}}},
		{"zeros before data", []write{{data, 4 * page, 1}, {zeros, 0, 1}}},
		{"zeros across the end", []write{{data, 0, 1}, {zeros, 3 * page, 1}}},
		{"zeros behind zeros", []write{{data, 0, 1}, {zeros, 8 * page, 0}, {zeros, 4 * page, 0}}},
	}
	for _, size := range []int64{0, 1 << 20} {
		for _, tt := range tests {
			_, d := tempDir(t)
			u := begin(t, d, "f", store.Create{Size: size})
			calls := 0
			d.Before(func(call string) error {
				if call == "write" {
					calls++
				}
				return nil
			})
			for i, w := range tt.writes {
				calls = 0
				if n, err := u.WriteAt(w.p, w.off); n != len(w.p) || err != nil {
					t.Errorf("%s: WriteAt = %d, %v", tt.name, n, err)
				}
				if calls != w.calls {
					t.Errorf("%s: write %d took %d calls, want %d", tt.name, i, calls, w.calls)
				}
			}
		}
	}
}

// TestDirSparseFailure checks the number of bytes that a write reports if one of its calls fails.
func TestDirSparseFailure(t *testing.T) {
	const page = 4096
	_, d := tempDir(t)
	u := begin(t, d, "f", store.Create{})
	p := make([]byte, 8*page)
	p[2*page], p[5*page] = 1, 1 // two calls, with zeros before each
	calls := 0
	d.Before(func(call string) error {
		if calls++; call == "write" && calls == 2 {
			return syscall.ENOSPC
		}
		return nil
	})
	n, err := u.WriteAt(p, 0)
	wantError(t, "WriteAt", err, store.ErrNoSpace)
	if n != 5*page {
		t.Errorf("WriteAt = %d, want %d", n, 5*page)
	}
	// Where a failed write may have written a part, zeros must not become a hole.
	d.Before(failAt("write", syscall.EIO))
	_, err = u.WriteAt(make([]byte, page), 5*page)
	wantError(t, "WriteAt of zeros over a failed write", err, syscall.EIO)
	u.Close()
	_, err = u.WriteAt(make([]byte, page), 100*page)
	wantError(t, "WriteAt of zeros after Close", err, fs.ErrClosed)
}
