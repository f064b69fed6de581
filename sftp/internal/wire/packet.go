package wire

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// PacketLength returns the size in bytes of the packet at the beginning of b, including its length
// field, or 0 if b is too short to contain the length. It returns an error if no packet can have
// that length. The beginning of the next packet is then unknown, so the session must end.
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

// A Header is the beginning of every packet.
type Header struct {
	Size int // bytes of the whole packet, from HeaderSize to MaxPacket
	Type Type
	ID   uint32 // the request's ID; in INIT and VERSION, the version number
}

// ParseHeader parses the first HeaderSize bytes of a packet. It does not check whether the type is
// known. It does check that a DATA has at least DataHeaderSize bytes, so that the caller can read
// them next.
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

// ParseDataHeader parses the first DataHeaderSize bytes of a DATA packet. They are followed by n
// bytes of data, and then by extra bytes that the caller has to discard: servers that support later
// versions may append a flag for the end of the file.
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

// whole returns the header of b, which must be exactly one packet.
func whole(b []byte) (Header, error) {
	h, err := ParseHeader(b)
	if err == nil && h.Size != len(b) {
		err = h.error("packet length", fmt.Sprintf("%d bytes, in %d", h.Size, len(b)))
	}
	return h, err
}

// error returns the error for a field of the packet that has the header h.
func (h Header) error(field, problem string) *Error {
	e := &Error{Status: BadMessage, Type: h.Type, Field: field, Problem: problem}
	if h.Type != TypeInit && h.Type != TypeVersion {
		e.HasID, e.ID = true, h.ID
	}
	return e
}

// An Error says what is wrong with a packet, and how a server has to answer.
type Error struct {
	Status    Status    // the code of the answer: BadMessage, or Unsupported for an unknown request
	HasID     bool      // ID is known, so the packet can be answered; otherwise the session must end
	ID        uint32    // the request's id
	Type      Type      // the packet's type; zero if it is too short to have one
	Extension Extension // the extension, if the packet is a known extended request
	Field     string    // the first field that is wrong
	Problem   string    // what is wrong with that field
}

// Error says which field of which packet is invalid, and why.
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

// error returns the error for the invalid field of the packet that has the header h.
func (r *reader) error(h Header) *Error { return h.error(r.field, r.problem) }
