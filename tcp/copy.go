package tcp

import (
	"io"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/sendfile"
)

// ReadFrom reads r until io.EOF, and sends all its bytes. On Linux the kernel itself copies them if
// r is a file (sendfile(2)) or another connection (splice(2)), or an io.LimitedReader of one of
// these. io.Copy and io.CopyN call ReadFrom. The bytes of any other reader, even of a program's own
// type that wraps a file or connection, pass through this process. While ReadFrom waits for r,
// other goroutines may write to the connection and close it.
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
	err := h.call("write", func(c *conns.Conn) error {
		return c.Writes(func() error {
			if joins || sendfile.IsRegular(r) {
				m = kernelReadFrom(c, r, most)
			}
			return m.err
		})
	})
	if err != nil {
		return m.n, err
	}
	return h.rest(m, onlyWriter{h}, r, most)
}

// WriteTo writes all received bytes to w, until the peer closes its sending half. On Linux the
// kernel itself copies them if w is a file or another connection (splice(2)). io.Copy calls
// WriteTo. While WriteTo waits for w, other goroutines may read from the connection and close it.
func (h *Conn) WriteTo(w io.Writer) (int64, error) { return h.writeTo(w, noLimit) }

func (h *Conn) writeTo(w io.Writer, most int64) (int64, error) {
	var ahead []byte // bytes that were already received, but not read by the handler
	var m kernelCopy
	err := h.call("read", func(c *conns.Conn) error {
		return c.Reads(most, func(b []byte) error {
			ahead = b
			m = kernelWriteTo(w, most-int64(len(ahead)))
			return m.err
		})
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

// rest lets the kernel continue the copy m if it can, and otherwise copies the remaining bytes
// through this process.
func (h *Conn) rest(m kernelCopy, w io.Writer, r io.Reader, most int64) (int64, error) {
	if !m.handled && m.join != nil && m.n < most {
		m = m.join(h)
	}
	if m.handled || m.n == most {
		return m.n, m.err
	}
	return m.copyRest(w, r, most)
}
