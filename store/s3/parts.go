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

// Bounds of uploads. Parts have 8 MiB, or more if there would be too many.
const (
	minPart = 8 << 20
	maxPart = 64 << 20

	// unknownPart is the size of the parts of a file of unknown size.
	unknownPart = 16 << 20

	// maxParts is the most parts that S3 accepts.
	maxParts = 10_000

	// markUnit and markRange make a resumable upload recognizable: its parts are longer by 1 to
	// markRange times markUnit bytes. See markedPart.
	markUnit  = 64
	markRange = 1 << 15

	// uploadMemory is the largest number of bytes that an upload holds, unless minBuffers parts are
	// larger. maxSpans bounds the number of pieces in which a part may be written. If a part has
	// more, it is not recognized as full, and is sent only when it has to be.
	uploadMemory = 64 << 20
	minBuffers   = 4
	maxSpans     = 1024
)

var (
	// errTooLarge says that a file is too large for the size of its parts.
	errTooLarge = errors.New("the file is too large for an S3 upload")

	// errSent says that a part can no longer be changed.
	errSent = fmt.Errorf("%w: these bytes have been sent, and S3 does not change or return parts of an upload; write in order, or within %d MiB", errors.ErrUnsupported, uploadMemory>>20)

	// errNoUpload says that a multipart upload no longer exists.
	errNoUpload = fmt.Errorf("%w, and has ended this upload", store.ErrBusy)
)

// partFor returns the size of the parts of a file, or errTooLarge if there would be too many.
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

// markedPart returns the size of the parts of a resumable upload. A list of uploads does not say
// what they are for, but does show the size of their parts. So that size marks the uploads of one
// sender and one content. Nevertheless, each existing part is compared with the data to be sent.
func markedPart(part int64, c store.Create) int64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s\x00%d", len(c.Resume), c.Resume, c.Source, c.Size))
	return part + markUnit*(1+int64(binary.BigEndian.Uint16(sum[:]))%markRange)
}

// buffersOf returns the largest number of parts of an upload that are held in memory.
func buffersOf(part int64) int { return int(max(minBuffers, uploadMemory/part)) }

// The states of a part.
const (
	filling = iota
	sending
	sent
)

// A part is a part of an upload.
type part struct {
	state   int
	buf     []byte // nil once it is sent
	spans   []span // the written pieces, in order
	ragged  bool   // written in too many pieces
	touched int64  // number of the last write to it
	size    int64  // bytes that were sent
	etag    string // assigned by the server
	sum     [md5.Size]byte
}

// A span is a piece of a part.
type span struct{ from, to int64 }

// write stores p at off in the part.
func (t *part) write(p []byte, off int64) {
	if end := off + int64(len(p)); end > int64(len(t.buf)) {
		t.buf = slices.Grow(t.buf, int(end)-len(t.buf))[:end]
	}
	copy(t.buf[off:], p)
	t.cover(off, off+int64(len(p)))
}

// cover records that a piece is written.
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

// isFull reports whether all of the first n bytes are written.
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
