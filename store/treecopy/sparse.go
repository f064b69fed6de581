package treecopy

import (
	"bytes"
	"io"
	"syscall"

	"github.com/haul-project/haul/store"
)

const (
	// page is the piece of a file that is a hole or none: what most file systems
	// allocate at least.
	page = 4096

	// minHole is the least hole of a source that is not read: to end one piece
	// and begin another costs the time for as much.
	minHole = 64 << 10
)

var zeros [page]byte

// writeData writes p without the pages in it that are zeros. It counts those too.
func writeData(w io.WriterAt, p []byte, off int64) (int, error) {
	for n := 0; n < len(p); {
		start := n
		for n < len(p) && !zeroPage(p[n:], off+int64(n)) {
			n += toPageEnd(p[n:], off+int64(n))
		}
		if n > start {
			if wrote, err := w.WriteAt(p[start:n], off+int64(start)); err != nil {
				return start + wrote, err
			}
		}
		for n < len(p) && zeroPage(p[n:], off+int64(n)) {
			n += toPageEnd(p[n:], off+int64(n))
		}
	}
	return len(p), nil
}

// toPageEnd returns how many bytes of p belong to the page that off is in.
func toPageEnd(p []byte, off int64) int { return int(min(int64(len(p)), page-off%page)) }

// zeroPage reports whether what p has of the page that off is in is zeros.
func zeroPage(p []byte, off int64) bool {
	n := toPageEnd(p, off)
	return bytes.Equal(p[:n], zeros[:n])
}

// eachData calls f with each part of a file up to size that is not a hole. Where
// holes cannot be found it is all of it.
func eachData(src store.File, size int64, f func(from, to int64) error) error {
	var raw syscall.RawConn
	if s, ok := store.As[syscall.Conn](src); ok {
		raw, _ = s.SyscallConn()
	}
	for from := int64(0); from < size; {
		start, end := from, size
		if raw != nil {
			start, end = nextData(raw, from, size)
			for end < size { // a small hole is not worth it
				next, nextEnd := nextData(raw, end, size)
				if next-end >= minHole || next >= size {
					break
				}
				end = nextEnd
			}
		}
		if start >= size {
			return nil
		}
		if err := f(start, end); err != nil {
			return err
		}
		from = end
	}
	return nil
}
