package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
)

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

// error is the error for what failed in the packet that h begins.
func (r *reader) error(h Header) *Error { return h.error(r.field, r.problem) }
