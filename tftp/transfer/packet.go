package transfer

import "encoding/binary"

// Port is the port on which servers listen for requests.
const Port = 69

// An Opcode is the first field of every packet (RFC 1350 §5, RFC 2347).
type Opcode uint16

// The opcodes.
const (
	ReadRequest     Opcode = 1
	WriteRequest    Opcode = 2
	Data            Opcode = 3
	Acknowledgement Opcode = 4
	ErrorPacket     Opcode = 5
	OptionAck       Opcode = 6
)

// HeaderSize is the length in bytes of a DATA packet's header, and of a whole ACK.
const HeaderSize = 4

// MaxRequest is the longest request that a server accepts, in bytes. RFC 2347 §2 allows 512;
// the larger bound leaves room for long paths and many options.
const MaxRequest = 2048

// A Mode is the encoding of a file's bytes in packets (RFC 1350 §2).
type Mode uint8

// The modes. RFC 1350's "mail" is obsolete and not accepted.
const (
	Octet    Mode = iota // bytes unchanged
	Netascii             // text, with line ends as CR LF and bare CR as CR NUL
)

// String returns the mode's name on the wire.
func (m Mode) String() string {
	if m == Netascii {
		return "netascii"
	}
	return "octet"
}

// A Request asks a server to read or to write one file.
type Request struct {
	Write bool
	Name  string // name as received, without any change or check
	Mode  Mode
	Offer Options
}

// OpcodeOf returns a datagram's opcode, or zero if the datagram is too short to have one.
func OpcodeOf(b []byte) Opcode {
	if len(b) < 2 {
		return 0
	}
	return Opcode(binary.BigEndian.Uint16(b))
}
