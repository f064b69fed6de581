package tcp

import (
	"io"
	"sync"
)

// copySize is how much is copied at once where the kernel does not do it alone.
const copySize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// noLimit is more than anybody sends.
const noLimit = 1 << 62

// A moved is what became of an attempt to have the kernel move bytes.
type moved struct {
	n       int64  // that have arrived
	left    []byte // taken from the source, and still to be written
	handled bool   // there is no more, or err; otherwise the rest is for others to copy
	err     error
}

// end returns m as the end, with the error that there was.
func (m moved) end(err error) moved {
	m.handled, m.err = true, err
	return m
}

// ReadFrom sends all that r has. On Linux the kernel does that alone if r is a file
// (sendfile(2)) or another connection (splice(2)), or an io.LimitedReader of one;
// io.Copy and io.CopyN come here.
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
	var m moved
	err := h.call("write", func(c *conn) error {
		c.writing.Lock()
		defer c.writing.Unlock()
		m = c.sysReadFrom(r, most)
		return m.err
	})
	if err != nil || m.handled {
		return m.n, err
	}
	return m.copyRest(onlyWriter{h}, r, most)
}

// WriteTo hands all that is received to w, until the peer's end. On Linux the kernel
// does that alone if w is a file or another connection (splice(2)); io.Copy comes
// here.
func (h *Conn) WriteTo(w io.Writer) (int64, error) { return h.writeTo(w, noLimit) }

func (h *Conn) writeTo(w io.Writer, most int64) (int64, error) {
	var first int64
	var m moved
	err := h.call("read", func(c *conn) error {
		c.reading.Lock()
		defer c.reading.Unlock()
		for len(c.prefix) > 0 && first < most {
			n, err := w.Write(c.prefix[:min(int64(len(c.prefix)), most-first)])
			c.prefix = c.prefix[n:]
			first += int64(n)
			if err != nil {
				m = m.end(err)
				return err
			}
		}
		if first < most {
			m = c.sysWriteTo(w, most-first)
		}
		return m.err
	})
	if err != nil || m.handled || first == most {
		return first + m.n, err
	}
	n, err := m.copyRest(w, onlyReader{h}, most-first)
	return first + n, err
}

// copyRest writes what the kernel has left, then copies the rest, all in all at most
// so many bytes.
func (m moved) copyRest(w io.Writer, r io.Reader, most int64) (int64, error) {
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
