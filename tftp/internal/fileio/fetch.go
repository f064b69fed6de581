package fileio

import (
	"errors"
	"fmt"
	"io"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// The bytes that a worker fetches at a time for one transfer, from a store that
// cannot say what is in memory, or has it on the disk.
const (
	MinFetch = 16 << 10
	MaxFetch = 64 << 10
)

// ErrChanged says that the file has fewer bytes than it had.
var ErrChanged = errors.New("file has become shorter than it was")

// A FetchBuffer holds the bytes of a file that TryReadAt did not have, after a
// worker has read them.
type FetchBuffer struct {
	buf  []byte
	off  int64
	n    int
	want int // how many to fetch
	need int // and how few will do

	one [1][]byte // for TryReadAt
}

// Aim says what fetch reads: the bytes of a run, at most the given number, but a
// block in any case. It returns how many.
func (f *FetchBuffer) Aim(run transfer.Run, block int, most int64) int {
	f.off = run.Offset
	f.need = int(min(int64(block), run.Bytes))
	f.want = max(int(min(max(run.Bytes, MinFetch), MaxFetch, most)), f.need)
	return f.want
}

// Fetch reads the bytes wanted, or at least the block that is due next. If
// that is not there, the file has shrunk.
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
		return io.ErrNoProgress // a fault of the file's: see io.ReaderAt
	}
	return err
}

// ReadAhead reads what is in memory of the file at off, at most size bytes, and
// returns how many.
func (f *FetchBuffer) ReadAhead(file store.TryReader, off int64, size int) int {
	if cap(f.buf) < size {
		f.buf = make([]byte, size)
	}
	f.one[0] = f.buf[:size]
	n, _ := file.TryReadAt(f.one[:], off) // what it cannot read is asked for again
	f.off, f.n = off, n
	return n
}

// ReadWhole reads a file of size bytes. It reports false if it has fewer, or cannot be read.
func (f *FetchBuffer) ReadWhole(r io.ReaderAt, size int) bool {
	f.off, f.n = 0, 0
	if size == 0 {
		return true
	}
	if cap(f.buf) < size {
		f.buf = make([]byte, size)
	}
	n, _ := r.ReadAt(f.buf[:size], 0) // what went wrong will go wrong again
	if n == size {
		f.n = n
	}
	return n == size
}

// Capacity returns how many bytes f has memory for.
func (f *FetchBuffer) Capacity() int { return cap(f.buf) }

// CopyTo fills bufs with what was fetched of the file at off. It returns 0 if that is
// less than the first of them.
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

// Spare returns a buffer for later that has the memory of f, if that is at most the
// given number of bytes.
func (f *FetchBuffer) Spare(most int) FetchBuffer {
	if cap(f.buf) > most {
		return FetchBuffer{}
	}
	return FetchBuffer{buf: f.buf}
}

// TryBlocks reads what can be read without waiting, if that is a block at least:
// half of one is of no use.
func TryBlocks(file store.TryReader, bufs [][]byte, off int64) (int, error) {
	n, err := file.TryReadAt(bufs, off)
	if n > 0 && n < len(bufs[0]) {
		return 0, store.ErrWouldBlock
	}
	return n, err
}
