package protocol

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/haul-project/haul/tftp/transfer"
)

// maxMessage bounds the text of an ERROR packet, sent or received, in bytes. It must be short,
// because an ERROR may answer a request with a forged address.
const maxMessage = 128

// AppendError appends an ERROR packet. It cuts msg to 128 bytes, and replaces characters that are
// not printable ASCII.
func AppendError(b []byte, code transfer.ErrorCode, msg string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(transfer.ErrorPacket))
	b = binary.BigEndian.AppendUint16(b, uint16(code))
	return append(append(b, clean(msg)...), 0)
}

// parseError parses an ERROR packet. It accepts packets without the closing NUL, or with nothing
// after the opcode.
func parseError(b []byte) *transfer.Error {
	e := &transfer.Error{Remote: true}
	if len(b) < transfer.HeaderSize {
		return e
	}
	e.Code = transfer.ErrorCode(binary.BigEndian.Uint16(b[2:]))
	msg, _, _ := bytes.Cut(b[transfer.HeaderSize:], []byte{0})
	if len(msg) > maxMessage {
		msg = msg[:maxMessage]
	}
	e.Message = clean(string(msg))
	return e
}

// clean cuts a message to maxMessage bytes and replaces all characters but printable ASCII, because
// other characters could harm a terminal or a log.
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
