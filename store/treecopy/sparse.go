package treecopy

import (
	"bytes"
	"io"
	"syscall"

	"github.com/haul-project/haul/store"
)

const (
	// page is the size, in bytes, of the pieces that are not written if they are all zeros. It is
	// the smallest unit that most file systems allocate.
	page = 4096

	// minHole is the size, in bytes, of the smallest hole in a source that is skipped. Reading a
	// smaller hole takes no longer than starting a new piece after it.
	minHole = 64 << 10
)

var zeros [page]byte

// writeData writes p, except for its pages of zeros. These count as written.
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

// toPageEnd returns how many bytes of p are in the page that contains off, the position of p.
func toPageEnd(p []byte, off int64) int { return int(min(int64(len(p)), page-off%page)) }

// zeroPage reports whether the bytes of p that are in the page of off are all zeros.
func zeroPage(p []byte, off int64) bool {
	n := toPageEnd(p, off)
	return bytes.Equal(p[:n], zeros[:n])
}

// eachData calls f for each part of a file, up to size, that is not a hole. If holes cannot be
// found, the whole file is one part.
func eachData(src store.File, size int64, f func(from, to int64) error) error {
	var raw syscall.RawConn
	if s, ok := store.As[syscall.Conn](src); ok {
		raw, _ = s.SyscallConn()
	}
	for from := int64(0); from < size; {
		start, end := from, size
		if raw != nil {
			start, end = nextData(raw, from, size)
			for end < size { // include small holes, because skipping them saves no time
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
