package doctor

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A packet is a datagram from the server. Data is valid until the next receive.
type packet struct {
	op    transfer.Opcode
	block uint16 // block number of a DATA or an ACK, or code of an ERROR
	data  []byte // the data after the header: a file's bytes, an ERROR's text, or an OACK's options
	from  netip.AddrPort
	at    time.Time
}

// parsePacket cuts a datagram into its fields. The opcode of a datagram that is too short is 0.
func parsePacket(b []byte) packet {
	p := packet{op: transfer.OpcodeOf(b)}
	switch {
	case p.op == transfer.OptionAck:
		p.data = b[2:]
	case len(b) >= transfer.HeaderSize:
		p.block, p.data = binary.BigEndian.Uint16(b[2:]), b[transfer.HeaderSize:]
	default:
		p.op = 0
	}
	return p
}

// String returns a short description of the packet, as findings show it.
func (p packet) String() string {
	switch p.op {
	case transfer.Data:
		return fmt.Sprintf("DATA %d of %d bytes", p.block, len(p.data))
	case transfer.Acknowledgement:
		return fmt.Sprintf("ACK %d", p.block)
	case transfer.ErrorPacket:
		return fmt.Sprintf("ERROR %d %q", p.block, p.text())
	case transfer.OptionAck:
		return fmt.Sprintf("OACK %q", strings.TrimRight(strings.ReplaceAll(printable(p.data), "\x00", " "), " "))
	}
	return fmt.Sprintf("opcode %d", p.op)
}

// text returns the message of an ERROR.
func (p packet) text() string {
	s, _, _ := strings.Cut(printable(p.data), "\x00")
	return s
}

const maxShown = 160 // how many bytes of a packet a finding quotes

// printable replaces bytes that could control a terminal.
func printable(b []byte) string {
	if len(b) > maxShown {
		b = b[:maxShown]
	}
	return strings.Map(func(r rune) rune {
		if r != 0 && (r < ' ' || r >= 0x7f) {
			return '?'
		}
		return r
	}, string(b))
}

// request returns a request packet with the given fields, all unchanged: the name, the mode, and
// the options with their values.
func request(op transfer.Opcode, fields ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(op))
	for _, f := range fields {
		b = append(append(b, f...), 0)
	}
	return b
}

func ack(block int64) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(transfer.Acknowledgement))
	return binary.BigEndian.AppendUint16(b, uint16(block))
}

func dataPacket(block int64, content []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(transfer.Data))
	return append(binary.BigEndian.AppendUint16(b, uint16(block)), content...)
}

func fault(code transfer.ErrorCode, text string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(transfer.ErrorPacket))
	b = binary.BigEndian.AppendUint16(b, uint16(code))
	return append(append(b, text...), 0)
}

// fromNetascii decodes netascii as tftp-hpa does on Unix. It keeps a CR that is not followed by LF
// or NUL.
var fromNetascii = strings.NewReplacer("\r\n", "\n", "\r\x00", "\r")
