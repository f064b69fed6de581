package storetest

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
)

// pattern returns n bytes of test data. They differ for each seed, and at different offsets.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	row := make([]byte, 256)
	for i := range row {
		row[i] = byte(i) ^ seed*101
	}
	// Write a row at a time: byte by byte would be slow, because the race detector checks each
	// write.
	for at := 0; at < n; at += len(row) {
		key := bytes.Repeat([]byte{byte(at>>8) * 31}, len(row))
		subtle.XORBytes(b[at:], row[:min(len(row), n-at)], key)
	}
	return b
}

func create(t *testing.T, st store.Store, name string, c store.Create) store.Upload {
	t.Helper()
	u, err := st.Create(t.Context(), name, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	return u
}

// write writes to an upload or a handle.
func write[Bytes ~string | ~[]byte](t *testing.T, w io.WriterAt, p Bytes, off int64) {
	t.Helper()
	if n, err := w.WriteAt([]byte(p), off); n != len(p) || err != nil {
		t.Errorf("WriteAt(%d bytes, %d) = %d, %v", len(p), off, n, err)
	}
}

func truncate(t *testing.T, u store.Upload, size int64) {
	t.Helper()
	if err := u.Truncate(size); err != nil {
		t.Error(err)
	}
}

func commit(t *testing.T, u store.Upload) {
	t.Helper()
	if err := u.Commit(); err != nil {
		t.Error(err)
	}
}

// Put stores a file with the given name and content. It fails the test if it cannot.
func Put[Bytes ~string | ~[]byte](t testing.TB, st store.Store, name string, content Bytes) {
	t.Helper()
	// Not the test's context, so that cleanup functions can use Put too.
	u, err := st.Create(context.Background(), name, store.Create{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := u.WriteAt([]byte(content), 0); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, st store.Store, name string) store.File {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func readAll(t *testing.T, f store.File) []byte {
	t.Helper()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil {
		t.Errorf("reading: %v", err)
	}
	return b
}

func wantContent(t *testing.T, st store.Store, name string, want []byte) {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if got := readAll(t, f); !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes %.20q..., want %d bytes %.20q...", name, len(got), got, len(want), want)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != int64(len(want)) {
		t.Errorf("Stat of %s = %v, %v, want size %d", name, fi, err, len(want))
	}
}

func wantMissing(t *testing.T, st store.Store, name string) {
	t.Helper()
	_, err := st.Open(t.Context(), name)
	wantError(t, "Open("+name+")", err, fs.ErrNotExist)
	_, err = st.Stat(t.Context(), name)
	wantError(t, "Stat("+name+")", err, fs.ErrNotExist)
}

func wantMode(t *testing.T, st store.Store, name string, want fs.FileMode) {
	t.Helper()
	fi, err := st.Stat(t.Context(), name)
	if err != nil {
		t.Error(err)
	} else if fi.Mode() != want {
		t.Errorf("%s has mode %v, want %v", name, fi.Mode(), want)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// wantOneWinner checks the errors of several operations that competed for one name: exactly one
// must have succeeded, and the others must have failed because the name exists. It returns the
// index of the operation that succeeded.
func wantOneWinner(t *testing.T, errs []error) int {
	t.Helper()
	won := slices.Index(errs, nil)
	if won < 0 {
		t.Fatal("no one has the name")
	}
	for i, err := range errs {
		if i != won {
			wantError(t, "what the others did", err, fs.ErrExist)
		}
	}
	return won
}

// badNames lists names that every store must refuse.
var badNames = []string{
	"", "/", "/f", "f/", strings.Repeat("x", 5000), "..", "../f", "a/../f", "a/..", "./f", "a/./f", "a//f",
	"f\x00", "\x00", "f\x00/../g", "../../../../etc/passwd",
}
