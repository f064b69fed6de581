package tcp

import (
	"io"
	"sync"

	"github.com/haul-project/haul/tcp/internal/sendfile"
)

// ReadFrom sends all bytes of r. On Linux the kernel does that alone if r is a file
// (sendfile(2)) or another connection (splice(2)), or an io.LimitedReader of one;
// io.Copy and io.CopyN come here. Other readers, also a program's own type
// around one of these, are read. While it waits for r, others may write, and close the
// connection.
func (h *Conn) ReadFrom(r io.Reader) (int64, error) {
	source, most := r, int64(noLimit)
	limited, _ := r.(*io.LimitedReader)
	if limited != nil {
		source, most = limited.R, max(0, limited.N)
	}
	var n int64
	var err error
	if other, ok := source.(*Conn); ok {
		n, err = other.writeTo(h, most)
	} else {
		n, err = h.readFrom(source, most)
	}
	if limited != nil {
		limited.N -= n
	}
	return n, err
}

func (h *Conn) readFrom(r io.Reader, most int64) (int64, error) {
	var m kernelCopy
	err := h.call("write", func(c *conn) error {
		c.writing.Lock()
		defer c.writing.Unlock()
		if joins || sendfile.IsRegular(r) {
			m = c.sysReadFrom(r, most)
		}
		return m.err
	})
	if err != nil {
		return m.n, err
	}
	return h.rest(m, onlyWriter{h}, r, most)
}

// WriteTo writes all received bytes to w, until the peer ends. On Linux the kernel does that
// alone if w is a file or another connection (splice(2)); io.Copy comes here. While it waits
// for w, others may read, and close the connection.
func (h *Conn) WriteTo(w io.Writer) (int64, error) { return h.writeTo(w, noLimit) }

func (h *Conn) writeTo(w io.Writer, most int64) (int64, error) {
	var ahead []byte // of the prefix
	var m kernelCopy
	err := h.call("read", func(c *conn) error {
		c.reading.Lock()
		defer c.reading.Unlock()
		if ahead = c.prefix[:min(int64(len(c.prefix)), most)]; len(ahead) > 0 {
			c.prefix = c.prefix[len(ahead):]
			c.heard()
		}
		m = c.sysWriteTo(w, most-int64(len(ahead)))
		return m.err
	})
	if err != nil {
		return 0, err
	}
	var first int64
	if len(ahead) > 0 {
		n, err := w.Write(ahead)
		if first = int64(n); err != nil {
			return first, err
		}
	}
	n, err := h.rest(m, w, onlyReader{h}, most-first)
	return first + n, err
}

// rest lets the kernel continue with m, and copies the bytes that the kernel does not.
func (h *Conn) rest(m kernelCopy, w io.Writer, r io.Reader, most int64) (int64, error) {
	if !m.handled && m.join != nil && m.n < most {
		m = m.join(h)
	}
	if m.handled || m.n == most {
		return m.n, m.err
	}
	return m.copyRest(w, r, most)
}

// copySize is how much is copied at once where the kernel does not do it alone.
const copySize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// noLimit is more bytes than any connection carries.
const noLimit = 1 << 62

// A kernelCopy is what became of an attempt to have the kernel move bytes.
type kernelCopy struct {
	n       int64  // bytes that were written
	left    []byte // bytes that were read, and still must be written
	handled bool   // the copy is complete or failed; otherwise the caller copies the rest
	err     error

	// join, if it is not nil, continues a copy that is not handled. It is called without
	// a lock of the connection: it may wait for the other end of the copy, and Close and
	// other calls must not wait for that.
	join func(*Conn) kernelCopy
}

// end returns m as handled, with an error.
func (m kernelCopy) end(err error) kernelCopy {
	m.handled, m.err = true, err
	return m
}

// copyRest writes what the kernel has left over, and copies the rest, at most so many bytes
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

// An onlyWriter has no ReadFrom that io.Copy could call, and an onlyReader no
// WriteTo.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
