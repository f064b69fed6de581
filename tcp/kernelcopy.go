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

// A kernelCopy is what became of an attempt to have the kernel move bytes.
type kernelCopy struct {
	n       int64  // that have arrived
	left    []byte // taken from the source, and still to be written
	handled bool   // there is no more, or err; otherwise the rest is for others to copy
	err     error

	// join continues from here, if it is not nil and the rest not handled. It is called
	// while the connection is not held: it may wait for the peer at the other end of
	// the copy, and Close and other calls must not wait for that.
	join func(*Conn) kernelCopy
}

// end returns m as the end, with the error that there was.
func (m kernelCopy) end(err error) kernelCopy {
	m.handled, m.err = true, err
	return m
}

// copyRest writes what the kernel has left, then copies the rest, all in all at most
// so many bytes.
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
