package fileio

import (
	"errors"
	"fmt"
	"io"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/protocol"
)

// MinFetch and MaxFetch bound how many bytes a worker fetches at once for one transfer. A worker
// fetches if the store cannot report what is in memory, or if the data is on disk.
const (
	MinFetch = 16 << 10
	MaxFetch = 64 << 10
)

// ErrChanged says that the file has fewer bytes than before.
var ErrChanged = errors.New("file has become shorter than it was")

// A FetchBuffer holds bytes of a file for a transfer: bytes that a worker has read, because
// TryReadAt could not return them, or bytes that were read ahead.
type FetchBuffer struct {
	buf  []byte
	off  int64
	n    int
	want int // number of bytes that Fetch reads
	need int // number of bytes that Fetch must read to succeed

	one [1][]byte // argument of TryReadAt, kept to avoid an allocation
}

// Aim chooses the bytes that Fetch reads: those of a run, or MinFetch bytes if the run has fewer.
// It chooses at most MaxFetch and at most `most` bytes, but at least one block, and returns their
// number.
func (f *FetchBuffer) Aim(run protocol.Run, block int, most int64) int {
	f.off = run.Offset
	f.need = int(min(int64(block), run.Bytes))
	f.want = max(int(min(max(run.Bytes, MinFetch), MaxFetch, most)), f.need)
	return f.want
}

// Fetch reads the bytes that Aim has chosen, or at least the next block. If that block is missing,
// the file has shrunk, and the error is ErrChanged.
func (f *FetchBuffer) Fetch(r io.ReaderAt) error {
	if cap(f.buf) < f.want {
		f.buf = make([]byte, f.want)
	}
	var err error
	f.n, err = r.ReadAt(f.buf[:f.want], f.off)
	switch {
	case f.n < 0 || f.n > f.want:
		f.n, err = 0, fmt.Errorf("file says that it read %d of %d bytes", f.n, f.want)
	case f.n >= f.need:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ErrChanged
	case err == nil:
		return io.ErrNoProgress // a fault of the file: io.ReaderAt requires an error here
	}
	return err
}

// ReadAhead reads at most size bytes of the file from off on, as far as they are in memory, and
// returns how many it has read.
func (f *FetchBuffer) ReadAhead(file store.TryReader, off int64, size int) int {
	if cap(f.buf) < size {
		f.buf = make([]byte, size)
	}
	f.one[0] = f.buf[:size]
	// An error does not matter: the caller reads the missing bytes in another way.
	n, _ := file.TryReadAt(f.one[:], off)
	f.off, f.n = off, n
	return n
}

// ReadWhole reads a file of size bytes. It reports false if the file is shorter or cannot be read.
func (f *FetchBuffer) ReadWhole(r io.ReaderAt, size int) bool {
	f.off, f.n = 0, 0
	if size == 0 {
		return true
	}
	if cap(f.buf) < size {
		f.buf = make([]byte, size)
	}
	n, _ := r.ReadAt(f.buf[:size], 0) // an error will occur again at the next read, and is handled there
	if n == size {
		f.n = n
	}
	return n == size
}

// Capacity returns how many bytes of memory f has.
func (f *FetchBuffer) Capacity() int { return cap(f.buf) }

// CopyTo fills bufs with fetched bytes of the file from off on. It returns their number, or 0 if
// they do not fill the first of bufs.
func (f *FetchBuffer) CopyTo(bufs [][]byte, off int64) int {
	i := off - f.off
	if f.n == 0 || i < 0 || i >= int64(f.n) {
		return 0
	}
	have, n := f.buf[i:f.n], 0
	for _, b := range bufs {
		n += copy(b, have[n:])
	}
	if n < len(bufs[0]) {
		return 0
	}
	return n
}

// Spare returns an empty buffer. The buffer reuses the memory of f if that is at most `most` bytes.
func (f *FetchBuffer) Spare(most int) FetchBuffer {
	if cap(f.buf) > most {
		return FetchBuffer{}
	}
	return FetchBuffer{buf: f.buf}
}

// TryBlocks fills bufs, which have room for a block each, with the data that is available without
// waiting. If that is less than a block, it returns ErrWouldBlock, because a part of a block is
// useless.
func TryBlocks(file store.TryReader, bufs [][]byte, off int64) (int, error) {
	n, err := file.TryReadAt(bufs, off)
	if n > 0 && n < len(bufs[0]) {
		return 0, store.ErrWouldBlock
	}
	return n, err
}
