package treecopy

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/haul-project/haul/store"
)

// copyBuffer is the number of bytes that one read requests if neither side has a faster method.
const copyBuffer = 256 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// overlap is the number of bytes before the point of resumption that are compared, if comparing
// everything would cost as much as copying it.
const overlap = 1 << 20

// algorithms are the hashes to request, in order of preference. The weak ones at the end still
// detect accidental damage.
var algorithms = []string{"sha256", "sha512", "sha384", "sha224", "sha1", "md5"}

var hashes = map[string]func() hash.Hash{
	"sha256": sha256.New, "sha512": sha512.New, "sha384": sha512.New384, "sha224": sha256.New224,
	"sha1": sha1.New, "md5": md5.New,
}

// equal reports whether the first n bytes of two files are the same.
func (t *task) equal(a, b store.File, n int64) (bool, error) {
	return t.compare(a, b, n, false)
}

// equalCheaply is like equal, but returns errors.ErrUnsupported if the content would have to be
// read from a server.
func (t *task) equalCheaply(a, b store.File, n int64) (bool, error) {
	return t.compare(a, b, n, true)
}

func (t *task) compare(a, b store.File, n int64, cheaply bool) (bool, error) {
	if n == 0 {
		return true, nil
	}
	algorithm, sum, err := HashOf(t.ctx, a, n, algorithms...)
	if errors.Is(err, errors.ErrUnsupported) {
		// The first file's server cannot compute a hash, so try the second file's.
		a, b = b, a
		algorithm, sum, err = HashOf(t.ctx, a, n, algorithms...)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		if cheaply && (remote(a) || remote(b)) {
			return false, errors.ErrUnsupported
		}
		algorithm = algorithms[0]
		sum, err = t.read(a, n, algorithm, cheaply)
	}
	if err != nil {
		return false, err
	}
	_, other, err := HashOf(t.ctx, b, n, algorithm)
	if errors.Is(err, errors.ErrUnsupported) {
		other, err = t.read(b, n, algorithm, cheaply)
	}
	if err != nil {
		return false, err
	}
	return bytes.Equal(sum, other), nil
}

// NewHash returns the hash with that name, as used by [store.RemoteFile], or nil if the name is
// unknown.
func NewHash(algorithm string) hash.Hash {
	if begin := hashes[algorithm]; begin != nil {
		return begin()
	}
	return nil
}

// HashOf asks the server of a file for the hash of its first n bytes. It uses the first of the
// wanted algorithms that the server supports. It never reads the file itself: if the file is not a
// [store.RemoteFile], or the server supports none of the algorithms, HashOf returns
// errors.ErrUnsupported.
func HashOf(ctx context.Context, f store.File, n int64, wanted ...string) (algorithm string, sum []byte, err error) {
	h, ok := store.As[store.RemoteFile](f)
	if !ok {
		return "", nil, errors.ErrUnsupported
	}
	algorithm, sum, err = h.Hash(ctx, 0, n, wanted...)
	if begin := hashes[algorithm]; err == nil && (begin == nil || len(sum) != begin().Size()) {
		return "", nil, fmt.Errorf("%w: a hash %q of %d bytes", errors.ErrUnsupported, algorithm, len(sum))
	}
	return algorithm, sum, err
}

// remote reports whether the file is on a server, so that reading it costs network traffic.
func remote(f store.File) bool {
	_, ok := store.As[store.RemoteFile](f)
	return ok
}

// read computes the hash of the first n bytes of a file by reading them. If the file is shorter, it
// computes the hash of all of it, which then differs from the other side's. With `cheaply` set, it
// does not read a remote file, and returns errors.ErrUnsupported.
func (t *task) read(f store.File, n int64, algorithm string, cheaply bool) ([]byte, error) {
	if remote(f) && cheaply {
		return nil, errors.ErrUnsupported
	}
	h := hashes[algorithm]()
	err := t.eachPiece(f, 0, n, remote(f), func(p []byte) error {
		_, err := h.Write(p)
		return err
	})
	return h.Sum(nil), err
}

// eachPiece calls f with the bytes of a file from off to `end`, piece by piece and in order.
// `limited` says that the pieces count toward Options.Limit.
func (t *task) eachPiece(r io.ReaderAt, off, end int64, limited bool, f func(p []byte) error) error {
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	for off < end {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		p := buf[:min(int64(len(buf)), end-off)]
		if limited {
			if err := t.wait(t.ctx, len(p)); err != nil {
				return err
			}
		}
		n, err := r.ReadAt(p, off)
		if n > 0 {
			if err := f(p[:n]); err != nil {
				return err
			}
		}
		off += int64(n)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case n == 0:
			return io.ErrNoProgress
		}
	}
	return nil
}

// overlaps reports whether the n bytes that an upload has from an earlier copy are the same as the
// first n bytes of the source. If the two sides can compare them without transferring them, all are
// compared; otherwise only the last ones.
func (t *task) overlaps(src store.File, u store.Upload, n, size int64) (bool, error) {
	if n > size {
		return false, nil
	}
	if t.to.can.OpenUpload == nil {
		return t.to.can.VerifiedResume, nil // without VerifiedResume, the bytes cannot be trusted
	}
	there, err := t.to.can.OpenUpload(t.ctx, u)
	if err != nil {
		return false, err
	}
	defer there.Close()
	same, err := t.equalCheaply(src, there, n)
	if !errors.Is(err, errors.ErrUnsupported) {
		return same, err
	}
	off := max(0, n-overlap)
	a, err := t.readAll(src, off, n)
	if err != nil {
		return false, err
	}
	b, err := t.readAll(there, off, n)
	return bytes.Equal(a, b), err
}

// readAll returns the bytes of a file from off to `end`, all at once: the caller asks only for few.
func (t *task) readAll(r io.ReaderAt, off, end int64) ([]byte, error) {
	b := make([]byte, 0, end-off)
	err := t.eachPiece(r, off, end, false, func(p []byte) error {
		b = append(b, p...)
		return nil
	})
	return b, err
}
