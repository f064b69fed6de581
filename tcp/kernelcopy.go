package tcp

import (
	"io"
	"sync"
)

// copySize is how many bytes are copied at a time when they pass through this process.
const copySize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// noLimit is the limit of a copy without one: more bytes than any connection carries.
const noLimit = 1 << 62

// A kernelCopy is the result of an attempt to let the kernel copy bytes.
type kernelCopy struct {
	n       int64  // bytes written
	left    []byte // bytes that were read from the source but not yet written
	handled bool   // the copy is complete or has failed; otherwise the caller copies the rest
	err     error

	// join, if not nil, continues a copy that is not handled. It may wait for the other end of the
	// copy. It is called without a lock of the connection, so that Close and other calls need not
	// wait with it.
	join func(*Conn) kernelCopy
}

// end returns m with handled set and with the result err, so that the caller copies no more.
func (m kernelCopy) end(err error) kernelCopy {
	m.handled, m.err = true, err
	return m
}

// copyRest writes the bytes in m.left, and then copies from r to w, until `most` bytes were copied
// in all.
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

// io.Copy would call a connection's ReadFrom or WriteTo again, in an endless recursion. An onlyWriter
// hides ReadFrom, and an onlyReader hides WriteTo.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
