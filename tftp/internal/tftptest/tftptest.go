// Package tftptest has peers that a test controls packet by packet, functions that build packets,
// and stores and files for tests. The tests of the server and of the client use it.
package tftptest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// Content returns n bytes that depend only on the name.
func Content(name string, n int) []byte {
	var seed [32]byte
	copy(seed[:], name)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// WantFile checks the content of a file in a store.
func WantFile(t testing.TB, st store.Store, name string, want []byte) {
	t.Helper()
	f, err := st.Open(context.Background(), name)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer f.Close()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s holds %d bytes (%v), not the %d it should", name, len(got), err, len(want))
	}
}

// WantNoFile checks that a store has no file of that name.
func WantNoFile(t testing.TB, st store.Store, name string) {
	t.Helper()
	if f, err := st.Open(context.Background(), name); err == nil {
		_ = f.Close()
		t.Errorf("%s exists", name)
	}
}

// Into returns a create function for Client.Get that stores the file under a name.
func Into(st store.Store, name string) func(int64) (store.Upload, error) {
	return func(size int64) (store.Upload, error) {
		return st.Create(context.Background(), name, store.Create{Size: size})
	}
}

// WantFault checks that err is an ERROR packet from the peer, with the given code.
func WantFault(t testing.TB, err error, code transfer.ErrorCode) {
	t.Helper()
	if fault, ok := errors.AsType[*transfer.Error](err); !ok || !fault.Remote || fault.Code != code {
		t.Errorf("error %v, want ERROR %d from the peer", err, code)
	}
}

// An Endless is a store with a single large file of zeros, and it drops all uploads. It allocates
// nothing.
type Endless struct {
	store.Store
	Size int64
}

// Open opens the file.
func (e *Endless) Open(context.Context, string) (store.File, error) {
	return (*Zeros)(e), nil
}

// Create begins an upload whose data is dropped.
func (e *Endless) Create(context.Context, string, store.Create) (store.Upload, error) {
	return (*Forgetful)(e), nil
}

// fileSizes holds values that are already converted to interfaces, so that Stat allocates nothing.
var fileSizes = map[int64]fs.FileInfo{1 << 40: FileSize(1 << 40), 100: FileSize(100)}

// Zeros is the file in an Endless.
type Zeros Endless

// Stat returns the size.
func (z *Zeros) Stat() (fs.FileInfo, error) { return fileSizes[z.Size], nil }

// Close does nothing.
func (z *Zeros) Close() error { return nil }

// ReadAt returns as if it had read, without changing p.
func (z *Zeros) ReadAt(p []byte, off int64) (int, error) {
	return int(min(int64(len(p)), z.Size-off)), nil
}

// TryReadAt returns as if it had read, without changing bufs.
func (z *Zeros) TryReadAt(bufs [][]byte, off int64) (int, error) {
	n := 0
	for _, b := range bufs {
		n += len(b)
	}
	return int(min(int64(n), z.Size-off)), nil
}

// Forgetful is an upload to an Endless. It drops its data.
type Forgetful Endless

// WriteAt accepts everything.
func (*Forgetful) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// Truncate does nothing.
func (*Forgetful) Truncate(int64) error { return nil }

// Commit does nothing.
func (*Forgetful) Commit() error { return nil }

// Close does nothing.
func (*Forgetful) Close() error { return nil }

// A FileSize is the fs.FileInfo of a file that has only a size.
type FileSize int64

// Name returns the empty string.
func (FileSize) Name() string { return "" }

// Size returns n, the size in bytes.
func (n FileSize) Size() int64 { return int64(n) }

// Mode returns the mode of a regular file.
func (FileSize) Mode() fs.FileMode { return 0o644 }

// ModTime returns the zero time.
func (FileSize) ModTime() time.Time { return time.Time{} }

// IsDir returns false.
func (FileSize) IsDir() bool { return false }

// Sys returns nil.
func (FileSize) Sys() any { return nil }
