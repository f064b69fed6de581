package wire

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// A packet begins with its length, which does not count itself, its type, and
// a request id; in INIT and VERSION the version has the place of the id.
const (
	// HeaderSize is how many bytes every packet has at the least: its length,
	// type and id. A client may wait for that many without knowing what comes.
	HeaderSize = lengthSize + 1 + 4

	// DataHeaderSize is how many bytes precede the data in a DATA packet.
	DataHeaderSize = HeaderSize + 4

	lengthSize = 4
)

// maxOffset is the last offset in a file that is accepted. It is so far below
// 2^63 that an offset plus the length of any READ or WRITE does not overflow.
const maxOffset = math.MaxInt64 - math.MaxUint32

// PacketLength returns how many bytes the packet at the front of b has, with
// its length field; or 0 if b is too short to say. An error means a length that
// no packet can have: where the next one begins is then unknown, and nothing
// is left but to end the session.
func PacketLength(b []byte) (int, error) {
	if len(b) < lengthSize {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(b)
	if n < HeaderSize-lengthSize || n > MaxPacket-lengthSize {
		return 0, &Error{Status: BadMessage, Field: "packet length", Problem: fmt.Sprintf("%d is not in %d to %d",
			n, HeaderSize-lengthSize, MaxPacket-lengthSize)}
	}
	return lengthSize + int(n), nil
}

// A Header is what all packets begin with.
type Header struct {
	Size int // bytes of the whole packet, at least HeaderSize and at most MaxPacket
	Type Type
	ID   uint32 // in INIT and VERSION the version
}

// ParseHeader reads the first HeaderSize bytes of a packet. Whether the type is
// known is not looked at; but a DATA has DataHeaderSize bytes at the least, so
// that those may be read next.
func ParseHeader(b []byte) (Header, error) {
	n, err := PacketLength(b)
	if err != nil {
		return Header{}, err
	}
	if len(b) < HeaderSize {
		return Header{}, &Error{Status: BadMessage, Field: "header", Problem: cutOff(HeaderSize, len(b))}
	}
	h := Header{Size: n, Type: Type(b[lengthSize]), ID: binary.BigEndian.Uint32(b[lengthSize+1:])}
	if h.Type == TypeData && n < DataHeaderSize {
		return Header{}, h.error("data", cutOff(DataHeaderSize-HeaderSize, n-HeaderSize))
	}
	return h, nil
}

// ParseDataHeader reads the first DataHeaderSize bytes of a DATA packet. The
// data follows, n bytes of it, and then extra bytes to throw away: servers that
// know later versions may append a mark for the end of the file.
func ParseDataHeader(b []byte) (id uint32, n, extra int, err error) {
	h, err := ParseHeader(b)
	if err != nil {
		return 0, 0, 0, err
	}
	if h.Type != TypeData {
		return 0, 0, 0, h.error("type", "not DATA")
	}
	r := reader{b: b[HeaderSize:]}
	length, left := r.uint32("data"), h.Size-DataHeaderSize
	if int64(length) > int64(left) {
		r.fail("data", cutOff(int64(length), left))
	}
	if r.failed() {
		return 0, 0, 0, r.error(h)
	}
	return h.ID, int(length), left - int(length), nil
}

// whole returns the header of b, which must be one packet and nothing else.
func whole(b []byte) (Header, error) {
	h, err := ParseHeader(b)
	if err == nil && h.Size != len(b) {
		err = h.error("packet length", fmt.Sprintf("%d bytes, in %d", h.Size, len(b)))
	}
	return h, err
}

// error is the error for a field of the packet that h begins.
func (h Header) error(field, problem string) *Error {
	e := &Error{Status: BadMessage, Type: h.Type, Field: field, Problem: problem}
	if h.Type != TypeInit && h.Type != TypeVersion {
		e.HasID, e.ID = true, h.ID
	}
	return e
}

// An Error says what is wrong with a packet, and what a server answers.
type Error struct {
	Status    Status    // to answer: BadMessage, or Unsupported for a request that is unknown
	HasID     bool      // there is an ID to answer to; if not, end the session
	ID        uint32    // the request's id
	Type      Type      // the packet's type; zero if it is too short to have one
	Extension Extension // which one, of an extended request that is known
	Field     string    // the first field that is wrong
	Problem   string    // what is wrong with it
}

// Error says which field of which packet is wrong, and how.
func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString("SFTP packet")
	if e.Type != 0 {
		s.WriteString(" " + e.Type.String())
	}
	if e.Extension != 0 {
		s.WriteString(" " + e.Extension.String())
	}
	if e.HasID {
		fmt.Fprintf(&s, " with id %d", e.ID)
	}
	fmt.Fprintf(&s, ": %s: %s", e.Field, e.Problem)
	return s.String()
}

// cutOff is the problem of a field that has fewer bytes than it should.
func cutOff(want int64, left int) string {
	return fmt.Sprintf("cut off: %d bytes wanted, %d left", want, left)
}

// begin appends a packet's header, for end to fill in the length; at is where
// the packet begins.
func begin(b []byte, t Type, id uint32) (_ []byte, at int) {
	at = len(b)
	b = append(b, 0, 0, 0, 0, byte(t))
	return binary.BigEndian.AppendUint32(b, id), at
}

// end sets the length of the packet that reaches from at to the end of b.
func end(b []byte, at int) []byte {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-lengthSize))
	return b
}

func appendUint32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

func appendUint64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// appendString appends the type that the draft calls string: a length, and
// that many bytes of any kind.
func appendString[S string | []byte](b []byte, s S) []byte {
	return append(appendUint32(b, uint32(len(s))), s...)
}

// A reader takes one field after the other off a packet. Once one is wrong, it
// remembers which, and all that follow are zero; so callers ask once, at the end.
type reader struct {
	b              []byte // what is left
	field, problem string // the first that was wrong
}

func (r *reader) failed() bool { return r.problem != "" }

func (r *reader) fail(field, problem string) {
	if !r.failed() {
		r.field, r.problem = field, problem
	}
	r.b = nil
}

// error is the error for what failed in the packet that h begins.
func (r *reader) error(h Header) *Error { return h.error(r.field, r.problem) }

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

// offset takes a place in a file.
func (r *reader) offset(field string) int64 {
	v := r.uint64(field)
	if v > maxOffset {
		r.fail(field, fmt.Sprintf("%d is beyond any file's end", v))
		return 0
	}
	return int64(v)
}

// size takes a number of bytes. Peers may say "all of it" by numbers from 2^63,
// and no file has as many: they become the most that an int64 holds.
func (r *reader) size(field string) int64 {
	return int64(min(r.uint64(field), math.MaxInt64))
}

// bytes takes a string of at most that many bytes. The view is capped, so that
// appending to it does not write into what follows.
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
