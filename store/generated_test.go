package store_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/haul-project/haul/store"
)

// brokenReader fails at every offset.
type brokenReader struct{}

func (brokenReader) ReadAt([]byte, int64) (int, error) { return 0, iotest.ErrTimeout }

func TestNewFile(t *testing.T) {
	const content = "0123456789"
	dir := t.TempDir()
	writeFile(t, dir, "f", content+"more")
	onDisk, err := os.Open(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer onDisk.Close()
	mod := time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)
	files := map[string]struct {
		f   store.File
		try bool
	}{
		"bytes":      {store.NewFile("d/f", bytes.NewReader([]byte(content)), 10, mod), true},
		"string":     {store.NewFile("d/f", strings.NewReader(content+"more"), 10, mod), true},
		"disk":       {store.NewFile("d/f", onDisk, 10, mod), false},
		"section":    {store.NewFile("d/f", io.NewSectionReader(onDisk, 0, 10), 10, mod), false},
		"from bytes": {store.FromBytes("d/f", []byte(content)), true},
	}
	for kind, file := range files {
		f := file.f
		fi, err := f.Stat()
		if err != nil || fi.Name() != "f" || fi.Size() != 10 || fi.Mode() != 0o444 ||
			fi.ModTime().IsZero() || kind != "from bytes" && !fi.ModTime().Equal(mod) {
			t.Errorf("%s: Stat = %v, %v", kind, fs.FormatFileInfo(fi), err)
		}
		if _, ok := f.(store.TryReader); ok != file.try {
			t.Errorf("%s: a TryReader: %v, want %v", kind, ok, file.try)
		}
		for range 2 { // the second Close changes nothing
			wantReads(t, kind, f, content)
			if err := f.Close(); err != nil {
				t.Errorf("%s: Close: %v", kind, err)
			}
		}
	}
	if _, err := onDisk.Stat(); err != nil {
		t.Errorf("Close closed the reader: %v", err)
	}
}

// wantReads reads f in every possible way.
func wantReads(t *testing.T, kind string, f store.File, content string) {
	t.Helper()
	tests := []struct {
		off  int64
		bufs []int
		want string
		err  error // nil or io.EOF if either is allowed
	}{
		{0, []int{10}, "0123456789", nil},
		{0, []int{4, 0, 3}, "0123456", nil},
		{6, []int{3, 8}, "6789", nil},
		{9, []int{0, 0, 5}, "9", nil},
		{10, []int{1}, "", io.EOF},
		{1 << 62, []int{3}, "", io.EOF},
		{-1, []int{3}, "", fs.ErrInvalid},
		{-1, []int{0}, "", fs.ErrInvalid},
	}
	for _, tt := range tests {
		bufs, size := make([][]byte, len(tt.bufs)), 0
		for i, n := range tt.bufs {
			bufs[i] = make([]byte, n)
			size += n
		}
		if r, ok := f.(store.TryReader); ok {
			n, err := r.TryReadAt(bufs, tt.off)
			if got := string(bytes.Join(bufs, nil)[:n]); got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s: TryReadAt(%v, %d) = %q, %v, want %q, %v", kind, tt.bufs, tt.off, got, err, tt.want, tt.err)
			}
		}
		p := make([]byte, size)
		n, err := f.ReadAt(p, tt.off)
		wantErr := tt.err
		if wantErr == nil && n < size || err == io.EOF && tt.off+int64(n) == int64(len(content)) {
			wantErr = io.EOF
		}
		if string(p[:n]) != tt.want || !errors.Is(err, wantErr) {
			t.Errorf("%s: ReadAt(%d bytes, %d) = %q, %v, want %q, %v", kind, size, tt.off, p[:n], err, tt.want, wantErr)
		}
	}
}

// TestNewFileLies uses readers that have fewer bytes than announced, or none.
func TestNewFileLies(t *testing.T) {
	f := store.NewFile("f", strings.NewReader("short"), 10, time.Time{})
	p := make([]byte, 10)
	n, err := f.ReadAt(p, 0)
	if string(p[:n]) != "short" {
		t.Errorf("ReadAt = %q", p[:n])
	}
	wantError(t, "ReadAt beyond the end of the reader", err, io.ErrUnexpectedEOF)
	if n, err := f.(store.TryReader).TryReadAt([][]byte{p}, 0); n != 5 || err != nil {
		t.Errorf("TryReadAt up to it = %d, %v", n, err)
	}
	_, err = f.(store.TryReader).TryReadAt([][]byte{p}, 5)
	wantError(t, "TryReadAt beyond it", err, io.ErrUnexpectedEOF)

	_, err = store.NewFile("f", brokenReader{}, 10, time.Time{}).ReadAt(p, 0)
	wantError(t, "ReadAt", err, iotest.ErrTimeout)

	f = store.NewFile("f", strings.NewReader("x"), -5, time.Time{})
	if fi, err := f.Stat(); err != nil || fi.Size() != 0 {
		t.Errorf("Stat = %v, %v, want size 0", fi, err)
	}
	_, err = f.ReadAt(p, 0)
	wantError(t, "ReadAt of nothing", err, io.EOF)
}

func TestFromBytesDoesNotAllocate(t *testing.T) {
	f := store.FromBytes("f", make([]byte, 5000))
	p := make([]byte, 2000)
	bufs := [][]byte{p[:1000], p[1000:]}
	r := f.(store.TryReader)
	allocs := testing.AllocsPerRun(100, func() {
		if n, err := f.ReadAt(p, 0); n != len(p) || err != nil {
			t.Fatalf("ReadAt = %d, %v", n, err)
		}
		if n, err := r.TryReadAt(bufs, 0); n != len(p) || err != nil {
			t.Fatalf("TryReadAt = %d, %v", n, err)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations, want none", allocs)
	}
}
