package tcp

import (
	"io"
	"sync"
)

// copySize is how many bytes are copied at once if the kernel cannot copy by itself.
const copySize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// noLimit is more bytes than any connection carries.
const noLimit = 1 << 62

// A kernelCopy is the result of letting the kernel move bytes.
type kernelCopy struct {
	n       int64  // bytes written
	left    []byte // bytes that were read but not yet written
	handled bool   // the copy is complete or failed; otherwise the caller copies the rest
	err     error

	// join, if not nil, continues a copy that is not handled. It is called without a lock of the
	// connection, because it may wait for the other end of the copy. Close and other calls must not
	// wait for that.
	join func(*Conn) kernelCopy
}

// end returns m as handled, with an error.
func (m kernelCopy) end(err error) kernelCopy {
	m.handled, m.err = true, err
	return m
}

// copyRest writes the bytes in m.left, and then copies the rest from r to w, up to most bytes in
// all.
func (m kernelCopy) copyRest(w io.Writer, r io.Reader, most int64) (int64, error) {
	n := m.n
	if len(m.left) > 0 {
		k, err := w.Write(m.left)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	b := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(b)
	k, err := io.CopyBuffer(onlyWriter{w}, io.LimitReader(r, most-n), b[:])
	return n + k, err
}

// An onlyWriter has no ReadFrom for io.Copy to call, and an onlyReader no WriteTo.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
