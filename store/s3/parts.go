package s3

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/haul-project/haul/store"
)

// These are limits of uploads. A part has minPart bytes, or more if the file would need more than
// maxParts parts.
const (
	minPart = 8 << 20
	maxPart = 64 << 20

	// unknownPart is the size of the parts, in bytes, if the size of the file is not known.
	unknownPart = 16 << 20

	// maxParts is the largest number of parts that S3 accepts.
	maxParts = 10_000

	// markUnit and markRange are used to recognize a resumable upload by the size of its parts:
	// each part has n * markUnit more bytes than usual, with n from 1 to markRange. See markedPart.
	markUnit  = 64
	markRange = 1 << 15

	// uploadMemory is the most data, in bytes, that an upload holds in memory; but it may always
	// hold minBuffers parts. maxSpans is the largest number of separate pieces of a part that are
	// tracked. A part with more pieces is not recognized as full, so it is sent only when it must
	// be.
	uploadMemory = 64 << 20
	minBuffers   = 4
	maxSpans     = 1024
)

var (
	// errTooLarge says that a file needs more parts than S3 accepts.
	errTooLarge = errors.New("the file is too large for an S3 upload")

	// errSent says that a write concerns a part that was already sent, and so cannot be changed.
	errSent = fmt.Errorf("%w: these bytes have been sent, and S3 does not change or return parts of an upload; write in order, or within %d MiB", errors.ErrUnsupported, uploadMemory>>20)

	// errNoUpload says that a multipart upload no longer exists on the server.
	errNoUpload = fmt.Errorf("%w, and has ended this upload", store.ErrBusy)
)

// partFor returns the size of the parts for a file of size bytes, or errTooLarge if the file would
// need too many parts.
func partFor(size int64) (int64, error) {
	if size <= 0 {
		return unknownPart, nil
	}
	const unit = 1 << 20
	part := max(minPart, ((size+maxParts-1)/maxParts+unit-1)/unit*unit)
	if part > maxPart {
		return 0, fmt.Errorf("%w: %d parts of %d MiB hold %d GiB, and it has %d", errTooLarge, maxParts, maxPart>>20, maxParts*maxPart>>30, size>>30)
	}
	return part, nil
}

// markedPart returns the size of the parts of a resumable upload. S3 does not say who began an upload
// or what its content is, but it lists the sizes of the parts. So the size is derived from the
// uploader, the source and the size of the file, and an earlier upload is recognized by it. Different
// uploads may have the same part size, so each existing part is also compared with the data.
func markedPart(part int64, c store.Create) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%d", len(c.Resume), c.Resume, c.Source, c.Size))
	return part + markUnit*(1+int64(binary.BigEndian.Uint16(sum[:]))%markRange)
}

// buffersOf returns the largest number of parts of an upload that are held in memory.
func buffersOf(part int64) int { return int(max(minBuffers, uploadMemory/part)) }

// These are the states of a part.
const (
	filling = iota
	sending
	sent
)

// A part is one part of a multipart upload.
type part struct {
	state   int
	buf     []byte // data of the part; nil once it is sent
	spans   []span // pieces that were written, in order
	ragged  bool   // the part was written in more than maxSpans pieces, so spans is not complete
	touched int64  // value of upload.writes at the last write to this part
	size    int64  // how many bytes were sent
	etag    string // ETag that the server assigned
	sum     [md5.Size]byte
}

// A span is a piece of a part that was written: the bytes in [from, to).
type span struct{ from, to int64 }

// write stores p at off in the part.
func (t *part) write(p []byte, off int64) {
	if end := off + int64(len(p)); end > int64(len(t.buf)) {
		t.buf = slices.Grow(t.buf, int(end)-len(t.buf))[:end]
	}
	copy(t.buf[off:], p)
	t.cover(off, off+int64(len(p)))
}

// cover records that the bytes in [from, to) are written.
func (t *part) cover(from, to int64) {
	if t.ragged {
		return
	}
	i, _ := slices.BinarySearchFunc(t.spans, from, func(s span, from int64) int {
		if s.to < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(t.spans) && t.spans[j].from <= to; j++ {
		from, to = min(from, t.spans[j].from), max(to, t.spans[j].to)
	}
	t.spans = slices.Replace(t.spans, i, j, span{from, to})
	if len(t.spans) > maxSpans {
		t.ragged, t.spans = true, nil
	}
}

// isFull reports whether the first n bytes are all written.
func (t *part) isFull(n int64) bool {
	return len(t.spans) == 1 && t.spans[0].from == 0 && t.spans[0].to >= n
}

// cut removes everything after the first n bytes.
func (t *part) cut(n int64) {
	if int64(len(t.buf)) > n {
		clear(t.buf[n:])
		t.buf = t.buf[:n]
	}
	for len(t.spans) > 0 && t.spans[len(t.spans)-1].to > n {
		last := &t.spans[len(t.spans)-1]
		if last.to = n; last.from >= n {
			t.spans = t.spans[:len(t.spans)-1]
		} else {
			break
		}
	}
}
