package tcp

import (
	"io"
	"io/fs"
	"os"
	"reflect"
	"sync"
)

// copySize is how much is copied at once where the kernel does not do it alone.
const copySize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// noLimit is more than any connection carries.
const noLimit = 1 << 62

// A moved is what became of an attempt to have the kernel move bytes.
type moved struct {
	n       int64  // that have arrived
	left    []byte // taken from the source, and still to be written
	handled bool   // there is no more, or err; otherwise the rest is for others to copy
	err     error

	// join continues from here, if it is not nil and the rest not handled. It is called
	// while the connection is not held: it may wait for the peer at the other end of
	// the copy, and Close and other calls must not wait for that.
	join func(*Conn) moved
}

// end returns m as the end, with the error that there was.
func (m moved) end(err error) moved {
	m.handled, m.err = true, err
	return m
}

// ReadFrom sends all that r has. On Linux the kernel does that alone if r is a file
// (sendfile(2)) or another connection (splice(2)), or an io.LimitedReader of one;
// io.Copy and io.CopyN come here. A program's own type around one of them is read
// from. While r is waited for, others may write, and close the connection.
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
		if joins || isRegular(r) {
			m = c.sysReadFrom(r, most)
		}
		return m.err
	})
	if err != nil {
		return m.n, err
	}
	return h.rest(m, onlyWriter{h}, r, most)
}

// WriteTo hands all that is received to w, until the peer's end. On Linux the kernel
// does that alone if w is a file or another connection (splice(2)); io.Copy comes
// here. While w is waited for, others may read, and close the connection.
func (h *Conn) WriteTo(w io.Writer) (int64, error) { return h.writeTo(w, noLimit) }

func (h *Conn) writeTo(w io.Writer, most int64) (int64, error) {
	var ahead []byte // of the prefix
	var m moved
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

// rest lets the kernel continue with m, and copies what it does not move.
func (h *Conn) rest(m moved, w io.Writer, r io.Reader, most int64) (int64, error) {
	if !m.handled && m.join != nil && m.n < most {
		m = m.join(h)
	}
	if m.handled || m.n == most {
		return m.n, m.err
	}
	return m.copyRest(w, r, most)
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

// isFile reports whether r is a file of package os and nothing more: a program's own
// type around one may give out other bytes than the file has.
//
// A file has a WriteTo, which gives what it cannot do itself to io.Copy, as a value of a
// hidden type without that method.
func isFile(r io.Reader) bool {
	_, ok := r.(*os.File)
	return ok || isOf(r, "os", "fileWithoutWriteTo")
}

// isRegular reports whether r is a file that never has to be waited for.
func isRegular(r io.Reader) bool {
	f, ok := r.(fs.File)
	if !ok || !isFile(r) {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// isOf reports whether the type of v is the one that a package of the standard library
// has by that name. No program's own package has such a path.
func isOf(v any, path, name string) bool {
	t := reflect.TypeOf(v)
	return t != nil && t.PkgPath() == path && t.Name() == name
}
