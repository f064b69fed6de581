package store

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"
)

// NewFile returns a File with the first size bytes of r, for a program that answers requests with
// content of its own. A negative size means 0. Its Stat returns the last element of name, size, mod
// and the permission bits 0o444. r must satisfy the contract of [io.ReaderAt], as several
// goroutines may read at once. If r has less than size bytes, reads return [io.ErrUnexpectedEOF].
//
// If r is a [bytes.Reader] or a [strings.Reader], the File is a [TryReader] that never returns
// [ErrWouldBlock]. Close does nothing; in particular it does not close r.
func NewFile(name string, r io.ReaderAt, size int64, mod time.Time) File {
	f := generated{r: r, info: memInfo{name: path.Base(name), size: max(size, 0), mode: 0o444, modTime: mod}}
	switch r.(type) {
	case *bytes.Reader, *strings.Reader:
		return &generatedInMemory{f}
	}
	return &f
}

// FromBytes returns a File that holds b, with the current time as its time of modification: see
// [NewFile]. It is a [TryReader] that never returns [ErrWouldBlock]. b is not copied, and must not
// change.
func FromBytes(name string, b []byte) File {
	return NewFile(name, bytes.NewReader(b), int64(len(b)), time.Now())
}

// A generated is a File that belongs to no store, as returned by [NewFile].
type generated struct {
	r    io.ReaderAt
	info memInfo
}

func (f *generated) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *generated) Close() error               { return nil }

func (f *generated) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, memFail("read", f.info.name, fs.ErrInvalid)
	}
	left := f.info.size - off
	if left <= 0 {
		return 0, io.EOF
	}
	n, err := f.r.ReadAt(p[:min(int64(len(p)), left)], off)
	switch {
	case err == io.EOF && int64(n) < left: // r is shorter than the size that the peer was promised
		err = memFail("read", f.info.name, io.ErrUnexpectedEOF)
	case err == nil && n < len(p):
		err = io.EOF
	}
	return n, err
}

// A generatedInMemory is a generated file whose content is in memory, so that ReadAt never waits.
type generatedInMemory struct{ generated }

var _ TryReader = (*generatedInMemory)(nil)

// TryReadAt reads at off, and never returns ErrWouldBlock.
func (f *generatedInMemory) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if off < 0 {
		return 0, memFail("read", f.info.name, fs.ErrInvalid)
	}
	n := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		got, err := f.ReadAt(b, off+int64(n))
		n += got
		if n == 0 {
			return 0, err
		}
		if got < len(b) {
			break
		}
	}
	return n, nil
}
