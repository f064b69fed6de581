package wire

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A packet begins with its length, which does not count itself, then its type, and then a request
// id. INIT and VERSION have the version in place of the id.
const (
	// HeaderSize is the smallest size of a packet, in bytes: its length, type and id. So a client
	// can always read this many bytes first.
	HeaderSize = lengthSize + 1 + 4

	// DataHeaderSize is how many bytes precede the data in a DATA packet.
	DataHeaderSize = HeaderSize + 4

	lengthSize = 4
)

// maxOffset is the largest accepted offset in a file. It is so far below 2^63 that an offset
// plus the length of any READ or WRITE does not overflow.
const maxOffset = math.MaxInt64 - math.MaxUint32

// begin appends the header of a packet; end fills in the length. The result `at` is the index in b
// at which the packet begins.
func begin(b []byte, t Type, id uint32) (_ []byte, at int) {
	at = len(b)
	b = append(b, 0, 0, 0, 0, byte(t))
	return binary.BigEndian.AppendUint32(b, id), at
}

// end sets the length field of the packet that extends from the index `at` to the end of b.
func end(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-lengthSize))
	return b
}

// announce sets the length field of the packet that begins at the index `at` of b. The length
// includes n further bytes, which are not in b yet.
func announce(b []byte, at, n int) []byte {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-lengthSize+n))
	return b
}

func appendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

func appendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendString appends a value of the type that the draft calls string: a length, and that many
// arbitrary bytes.
func appendString[S string | []byte](b []byte, s S) []byte {
	return append(appendUint32(b, uint32(len(s))), s...)
}

// appendOne appends a packet with one string: a path or a handle.
func appendOne(b []byte, t Type, id uint32, s string) []byte {
	b, at := begin(b, t, id)
	return end(appendString(b, s), at)
}

// A reader reads the fields of a packet, one after the other. After the first invalid field it
// remembers the error and returns zero values, so callers check for errors only once, at the end.
type reader struct {
	b              []byte // the bytes not read yet
	field, problem string // the first invalid field, and what is wrong with it
}

func (r *reader) failed() bool { return r.problem != "" }

func (r *reader) fail(field, problem string) {
	if !r.failed() {
		r.field, r.problem = field, problem
	}
	r.b = nil
}

func (r *reader) uint32(field string) uint32 {
	if len(r.b) < 4 {
		r.fail(field, cutOff(4, len(r.b)))
		return 0
	}
	v := binary.BigEndian.Uint32(r.b)
	r.b = r.b[4:]
	return v
}

func (r *reader) uint64(field string) uint64 {
	if len(r.b) < 8 {
		r.fail(field, cutOff(8, len(r.b)))
		return 0
	}
	v := binary.BigEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// offset reads an offset in a file.
func (r *reader) offset(field string) int64 {
	v := r.uint64(field)
	if v > maxOffset {
		r.fail(field, fmt.Sprintf("%d is beyond any file's end", v))
		return 0
	}
	return int64(v)
}

// size reads a number of bytes. Peers may send numbers from 2^63 on to mean "all", and no file is
// that large. They become math.MaxInt64.
func (r *reader) size(field string) int64 {
	return int64(min(r.uint64(field), math.MaxInt64))
}

// bytes reads a string of at most `most` bytes. The capacity of the result is limited, so that
// appending to it does not overwrite the following bytes.
func (r *reader) bytes(field string, most int) []byte {
	n := r.uint32(field)
	switch {
	case r.failed():
		return nil
	case int64(n) > int64(most):
		r.fail(field, fmt.Sprintf("%d bytes, and at most %d are allowed", n, most))
		return nil
	case int64(n) > int64(len(r.b)):
		r.fail(field, cutOff(int64(n), len(r.b)))
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) handle(field string) []byte { return r.bytes(field, MaxHandle) }

func (r *reader) path(field string) []byte { return r.bytes(field, MaxPath) }

// count reads the number of elements that follow, each of at least `size` bytes. It fails if there
// are more than `most` elements, or if the packet is too short for that number.
func (r *reader) count(field string, size, most int) int {
	n := r.uint32(field)
	switch {
	case r.failed():
		return 0
	case int64(n)*int64(size) > int64(len(r.b)):
		r.fail(field, fmt.Sprintf("%d of them cannot be in %d bytes", n, len(r.b)))
		return 0
	case int64(n) > int64(most):
		r.fail(field, fmt.Sprintf("%d, and at most %d are allowed", n, most))
		return 0
	}
	return int(n)
}

// cutOff describes a field that has fewer bytes than it should.
func cutOff(want int64, left int) string {
	return fmt.Sprintf("cut off: %d bytes wanted, %d left", want, left)
}
