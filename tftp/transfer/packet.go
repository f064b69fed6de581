package transfer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

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

// MaxRequest is the longest request that ParseRequest accepts, in bytes.
// RFC 2347 §2 allows 512; deep trees and long option lists get some room.
const MaxRequest = 2048

// maxMessage bounds the text of an ERROR packet, sent or received, in bytes. It must be short,
// because an ERROR may answer a request with a forged address.
const maxMessage = 128

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
	Name  string // as received: neither cleaned nor checked
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

// ParseRequest parses a read or write request (RFC 1350 §5, RFC 2347). The case of mode and option
// names does not matter. Options that are unknown, malformed or repeated are ignored. Its error is
// always an [*Error] that can be sent as the answer.
func ParseRequest(b []byte) (Request, error) { return ParseRequestWithout(0, b) }

// ParseRequestWithout is ParseRequest for a server that does not know the options of refused.
func ParseRequestWithout(refused OptionSet, b []byte) (Request, error) {
	op := OpcodeOf(b)
	if op != ReadRequest && op != WriteRequest {
		return Request{}, &Error{Code: IllegalOperation, Message: "not a request"}
	}
	if len(b) > MaxRequest {
		return Request{}, &Error{Code: IllegalOperation, Message: "request too long"}
	}
	name, rest, ok := cutField(b[2:])
	if !ok || len(name) == 0 {
		return Request{}, &Error{Code: IllegalOperation, Message: "request without a file name"}
	}
	mode, rest, ok := cutField(rest)
	if !ok {
		return Request{}, &Error{Code: IllegalOperation, Message: "request without a mode"}
	}
	r := Request{Write: op == WriteRequest, Name: string(name)}
	switch {
	case equalFold(mode, "octet"):
	case equalFold(mode, "netascii"):
		r.Mode = Netascii
	default:
		return Request{}, &Error{Code: IllegalOperation, Message: "mode is neither octet nor netascii"}
	}
	r.Offer = parseOffer(rest, refused)
	return r, nil
}

// AppendRequest appends a request packet.
func AppendRequest(b []byte, r Request) []byte {
	op := ReadRequest
	if r.Write {
		op = WriteRequest
	}
	b = binary.BigEndian.AppendUint16(b, uint16(op))
	b = append(append(b, r.Name...), 0)
	b = append(append(b, r.Mode.String()...), 0)
	return appendOptions(b, r.Offer)
}

// AppendHeader appends the header of a DATA packet, for drivers that build a run of blocks in one
// buffer. Block counts from 1 and never wraps; the number in the packet does.
func AppendHeader(b []byte, block int64, roll Rollover) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(Data))
	return binary.BigEndian.AppendUint16(b, wireNumber(block, roll))
}

// AppendError appends an ERROR packet; msg is cut to a short line.
func AppendError(b []byte, code ErrorCode, msg string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(ErrorPacket))
	b = binary.BigEndian.AppendUint16(b, uint16(code))
	return append(append(b, clean(msg)...), 0)
}

func appendAck(b []byte, block int64, roll Rollover) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(Acknowledgement))
	return binary.BigEndian.AppendUint16(b, wireNumber(block, roll))
}

func appendOptionAck(b []byte, o Options) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(OptionAck))
	return appendOptions(b, o)
}

// An ErrorCode is the number in an ERROR packet (RFC 1350 appendix, RFC 2347).
type ErrorCode uint16

// The error codes.
const (
	NotDefined       ErrorCode = 0 // the message says what happened
	FileNotFound     ErrorCode = 1
	AccessViolation  ErrorCode = 2
	DiskFull         ErrorCode = 3 // or allocation exceeded
	IllegalOperation ErrorCode = 4
	UnknownID        ErrorCode = 5 // unknown transfer ID
	FileExists       ErrorCode = 6
	NoSuchUser       ErrorCode = 7
	OptionsRefused   ErrorCode = 8 // RFC 2347: the options cannot be agreed on
)

var errorTexts = [...]string{
	NotDefined:       "error",
	FileNotFound:     "file not found",
	AccessViolation:  "access violation",
	DiskFull:         "disk full or allocation exceeded",
	IllegalOperation: "illegal TFTP operation",
	UnknownID:        "unknown transfer ID",
	FileExists:       "file already exists",
	NoSuchUser:       "no such user",
	OptionsRefused:   "options refused",
}

// String returns the code's meaning in the RFC's words.
func (c ErrorCode) String() string {
	if int(c) < len(errorTexts) {
		return errorTexts[c]
	}
	return fmt.Sprintf("error %d", uint16(c))
}

// An Error is the content of an ERROR packet.
type Error struct {
	Code    ErrorCode
	Message string
	Remote  bool // it came from the peer
}

// Error says who refused what.
func (e *Error) Error() string {
	s := e.Code.String()
	if e.Message != "" && !strings.EqualFold(e.Message, s) {
		s += ": " + e.Message
	}
	if e.Remote {
		return fmt.Sprintf("peer says %s (ERROR %d)", s, uint16(e.Code))
	}
	return s
}

// parseError parses an ERROR packet. It accepts packets without the closing NUL, or with nothing
// after the opcode.
func parseError(b []byte) *Error {
	e := &Error{Remote: true}
	if len(b) < HeaderSize {
		return e
	}
	e.Code = ErrorCode(binary.BigEndian.Uint16(b[2:]))
	msg, _, _ := bytes.Cut(b[HeaderSize:], []byte{0})
	if len(msg) > maxMessage {
		msg = msg[:maxMessage]
	}
	e.Message = clean(string(msg))
	return e
}

// clean cuts a message to maxMessage bytes and replaces characters that could harm a terminal or a
// log.
func clean(msg string) string {
	if len(msg) > maxMessage {
		msg = msg[:maxMessage]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, msg)
}

// cutField cuts a NUL-terminated field off b.
func cutField(b []byte) (field, rest []byte, ok bool) {
	return bytes.Cut(b, []byte{0})
}

// equalFold reports whether b equals s without regard to case. s must be in lower case.
func equalFold(b []byte, s string) bool {
	return len(b) == len(s) && bytes.EqualFold(b, []byte(s))
}
