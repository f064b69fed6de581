package trace

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/haul-project/haul/tftp/transfer"
)

// These constants say how much of a packet a line shows, in bytes of the packet. Longer strings are
// cut off. A byte may take four characters in the line, as \x00 does.
const (
	maxName    = 1024 // bytes of a file name
	maxMessage = 256  // bytes of an ERROR's text
	maxField   = 64   // bytes of a mode, and of an option's name or value
	maxOptions = 16   // number of options; haul knows six
)

// maxLine is longer than any line, in bytes. A name and options that consist only of escapes take
// 12.5 KiB.
const maxLine = 16 << 10

const hexColumns = 16 // bytes in each line of the dump

// text is the form for people to read.
type text struct {
	hexBytes int
}

func (text) begin(b []byte) []byte { return b }

func (f text) packet(b []byte, q *queued) []byte {
	if q.lost > 0 {
		b = appendCount(append(b, "-- "...), q.lost, "packet is", "packets are")
		b = append(b, " missing here\n"...)
	}
	b = appendLine(b, &q.Packet)
	return appendHex(b, q.Data, f.hexBytes)
}

func (text) end(b []byte, lost int64) []byte {
	if lost == 0 {
		return b
	}
	b = appendCount(append(b, "-- "...), lost, "packet was", "packets were")
	return append(b, " not traced: more came than could be written in time\n"...)
}

// Describe describes a datagram in one line, as the text trace does: the kind of the packet and its
// fields, in the order of the packet. The result is printable ASCII and shorter than 16 KiB for any
// datagram.
//
// Unknown options, repeated options and values that are not decimal are quoted. Describe does not
// know earlier packets, so it calls a DATA the last one only if it is shorter than any block size
// (RFC 2348).
func Describe(datagram []byte) string {
	return string(appendPacket(nil, datagram))
}

func appendLine(b []byte, p *Packet) []byte {
	from, to := p.Peer, p.Local
	if p.Sent {
		from, to = to, from
	}
	b = append(p.Time.AppendFormat(b, "15:04:05.000000"), ' ')
	b = append(appendAddr(b, from), " > "...)
	b = append(appendAddr(b, to), "  "...)
	b = append(appendPacket(b, p.Data), "  ("...)
	b = appendCount(b, int64(len(p.Data)), "byte", "bytes")
	return append(b, ")\n"...)
}

// appendAddr appends an address, or only the port if the address is not known.
func appendAddr(b []byte, a netip.AddrPort) []byte {
	if !a.Addr().IsValid() {
		return strconv.AppendUint(append(b, ':'), uint64(a.Port()), 10)
	}
	start := len(b)
	b = netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).AppendTo(b)
	// A zone is the name of an interface, and the kernel allows nearly any characters in it.
	for i := start; i < len(b); i++ {
		if b[i] <= ' ' || b[i] > '~' {
			b[i] = '?'
		}
	}
	return b
}

func appendPacket(b, d []byte) []byte {
	if len(d) < 2 {
		return append(b, "not TFTP: too short"...)
	}
	switch op := transfer.OpcodeOf(d); op {
	case transfer.ReadRequest:
		return appendRequest(append(b, "RRQ "...), d[2:])
	case transfer.WriteRequest:
		return appendRequest(append(b, "WRQ "...), d[2:])
	case transfer.Data:
		return appendData(append(b, "DATA "...), d)
	case transfer.Acknowledgement:
		return appendAck(append(b, "ACK "...), d)
	case transfer.ErrorPacket:
		return appendError(append(b, "ERROR "...), d)
	case transfer.OptionAck:
		return appendOptions(append(b, "OACK"...), d[2:])
	default:
		b = append(b, "not TFTP: opcode "...)
		return strconv.AppendUint(b, uint64(op), 10)
	}
}

// cutOff marks a packet that ends before its last field does.
const cutOff = " (cut off)"

func appendRequest(b, d []byte) []byte {
	name, d, whole := bytes.Cut(d, []byte{0})
	b = appendQuoted(b, name, maxName)
	if !whole {
		return append(b, cutOff...)
	}
	mode, d, whole := bytes.Cut(d, []byte{0})
	b = append(b, ' ')
	if isOneOf(mode, "octet", "netascii", "mail") {
		b = append(b, mode...)
	} else {
		b = appendQuoted(b, mode, maxField)
	}
	if !whole {
		return append(b, cutOff...)
	}
	return appendOptions(b, d)
}

// appendOptions appends pairs of NUL-terminated strings (RFC 2347).
func appendOptions(b, d []byte) []byte {
	var seen [maxOptions][]byte
	for i := 0; len(d) > 0; i++ {
		if len(bytes.Trim(d, "\x00")) == 0 {
			return appendExtra(b, len(d)) // some requests are padded to a fixed size
		}
		if i == maxOptions {
			b = append(b, " and more options in "...)
			return appendCount(b, int64(len(d)), "byte", "bytes")
		}
		name, rest, whole := bytes.Cut(d, []byte{0})
		if !whole {
			b = appendQuoted(append(b, ' '), name, maxField)
			return append(b, cutOff...)
		}
		var value []byte
		value, d, whole = bytes.Cut(rest, []byte{0})
		b = appendOption(append(b, ' '), name, value, contains(seen[:i], name))
		if !whole {
			return append(b, cutOff...)
		}
		seen[i] = name
	}
	return b
}

func appendOption(b, name, value []byte, repeated bool) []byte {
	known := !repeated && isOneOf(name, "blksize", "tsize", "timeout", "windowsize", "utimeout", "rollover")
	if known {
		b = append(b, name...)
	} else {
		b = appendQuoted(b, name, maxField)
	}
	b = append(b, '=')
	if known && isDecimal(value) {
		b = append(b, value...)
	} else {
		b = appendQuoted(b, value, maxField)
	}
	if repeated {
		b = append(b, " (repeated)"...)
	}
	return b
}

func appendData(b, d []byte) []byte {
	if len(d) < transfer.HeaderSize {
		return append(b[:len(b)-1], cutOff...)
	}
	b = append(appendUint16(b, d[2:]), ", "...)
	n := len(d) - transfer.HeaderSize
	b = appendCount(b, int64(n), "byte", "bytes")
	if n < transfer.MinBlockSize {
		b = append(b, ", the last"...)
	}
	return b
}

func appendAck(b, d []byte) []byte {
	if len(d) < transfer.HeaderSize {
		return append(b[:len(b)-1], cutOff...)
	}
	return appendExtra(appendUint16(b, d[2:]), len(d)-transfer.HeaderSize)
}

func appendError(b, d []byte) []byte {
	if len(d) < transfer.HeaderSize {
		return append(b[:len(b)-1], cutOff...)
	}
	b = append(appendUint16(b, d[2:]), ' ')
	switch code := transfer.ErrorCode(binary.BigEndian.Uint16(d[2:])); {
	case code == transfer.NotDefined:
		b = append(b, "not defined"...)
	case code <= transfer.OptionsRefused:
		b = append(b, code.String()...)
	default:
		b = append(b, "unknown code"...)
	}
	msg, rest, whole := bytes.Cut(d[transfer.HeaderSize:], []byte{0})
	b = appendQuoted(append(b, ": "...), msg, maxMessage)
	if !whole {
		return append(b, " (no closing NUL)"...)
	}
	return appendExtra(b, len(rest))
}

// appendExtra reports bytes after the end of the packet.
func appendExtra(b []byte, n int) []byte {
	if n == 0 {
		return b
	}
	b = appendCount(append(b, " ("...), int64(n), "byte", "bytes")
	return append(b, " too many)"...)
}

// appendQuoted appends at most `limit` bytes of s as a Go string in ASCII, followed by dots if s is
// longer. It escapes all bytes beyond ASCII, even letters, because a terminal without UTF-8 may
// interpret a part of a letter as a control character.
func appendQuoted(b, s []byte, limit int) []byte {
	if len(s) <= limit {
		return strconv.AppendQuoteToASCII(b, string(s))
	}
	return append(strconv.AppendQuoteToASCII(b, string(s[:limit])), "..."...)
}

func appendUint16(b, d []byte) []byte {
	return strconv.AppendUint(b, uint64(binary.BigEndian.Uint16(d)), 10)
}

func appendCount(b []byte, n int64, one, many string) []byte {
	b = append(strconv.AppendInt(b, n, 10), ' ')
	if n == 1 {
		return append(b, one...)
	}
	return append(b, many...)
}

// isOneOf reports whether s is one of the given words in upper or lower case. The comparison of
// lengths excludes letters beyond ASCII that EqualFold takes for ASCII letters, because they have
// more bytes.
func isOneOf(s []byte, words ...string) bool {
	for _, w := range words {
		if len(s) == len(w) && bytes.EqualFold(s, []byte(w)) {
			return true
		}
	}
	return false
}

func contains(names [][]byte, name []byte) bool {
	for _, n := range names {
		if bytes.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// isDecimal reports whether s consists only of digits, and of no more digits than the largest int64
// has.
func isDecimal(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 19
}

const hexDigits = "0123456789abcdef"

// appendHex appends a dump of the first bytes of d.
func appendHex(b, d []byte, limit int) []byte {
	shown := d[:min(len(d), limit)]
	for at := 0; at < len(shown); at += hexColumns {
		b = appendHexLine(b, at, shown[at:min(at+hexColumns, len(shown))])
	}
	if more := len(d) - len(shown); more > 0 && limit > 0 {
		b = appendCount(append(b, "    ... "...), int64(more), "byte", "bytes")
		b = append(b, " more\n"...)
	}
	return b
}

func appendHexLine(b []byte, at int, d []byte) []byte {
	b = append(b, "    "...)
	for shift := 12; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[at>>shift&15])
	}
	b = append(b, ' ')
	for i := range hexColumns {
		if i < len(d) {
			b = append(b, ' ', hexDigits[d[i]>>4], hexDigits[d[i]&15])
		} else {
			b = append(b, "   "...)
		}
	}
	b = append(b, "  |"...)
	for _, c := range d {
		if c < ' ' || c > '~' {
			c = '.'
		}
		b = append(b, c)
	}
	return append(b, "|\n"...)
}
