package treecopy

import (
	"bytes"
	"io"
	"syscall"

	"github.com/haul-project/haul/store"
)

const (
	// page is the unit in which zeros are left out: the smallest allocation of most file systems.
	page = 4096

	// minHole is the smallest hole of a source that is skipped, in bytes. Ending one piece and
	// beginning another costs as much time as reading that many bytes.
	minHole = 64 << 10
)

var zeros [page]byte

// writeData writes p except for its pages of zeros, which it counts as written.
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

// toPageEnd returns how many bytes of p belong to the page that contains off.
func toPageEnd(p []byte, off int64) int { return int(min(int64(len(p)), page-off%page)) }

// zeroPage reports whether the bytes of p in the page that contains off are zeros.
func zeroPage(p []byte, off int64) bool {
	n := toPageEnd(p, off)
	return bytes.Equal(p[:n], zeros[:n])
}

// eachData calls f for each part of a file up to size that is not a hole. If holes cannot be found,
// the only part is the whole file.
func eachData(src store.File, size int64, f func(from, to int64) error) error {
	var raw syscall.RawConn
	if s, ok := store.As[syscall.Conn](src); ok {
		raw, _ = s.SyscallConn()
	}
	for from := int64(0); from < size; {
		start, end := from, size
		if raw != nil {
			start, end = nextData(raw, from, size)
			for end < size { // skipping a small hole is not worthwhile
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
