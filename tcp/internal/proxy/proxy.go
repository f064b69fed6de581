// Package proxy parses headers of the PROXY protocol. A load balancer sends such a header at the
// beginning of a connection to pass on the client's address. The header is a line of text (version
// 1) or binary (version 2), and the client's first byte follows it. HAProxy's proxy-protocol.txt
// describes both versions; section numbers in this package refer to it.
package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"strconv"
	"unsafe"
)

// The largest lengths of a header, in bytes.
const (
	// maxLine is the length of the longest line of version 1, including its CR LF (§2.1).
	maxLine = 107

	// MaxLength is the length of the longest header of version 2 that is accepted. The protocol
	// allows 64 KiB, and says that a header fits into a segment (§2). Load balancers add a few
	// hundred bytes to the addresses. 4 KiB also leave room for a client's certificate.
	MaxLength = 4 << 10
)

// A header of version 1 begins with beginV1, and one of version 2 with beginV2 (§2.1 and §2.2). No
// other protocol begins with beginV2.
const (
	beginV1 = "PROXY "
	beginV2 = "\r\n\r\n\x00\r\nQUIT\n"
)

// fixedLength is the length of the fixed part of version 2: the signature, a byte for version and
// command, a byte for family and transport, and two bytes for the length of the rest.
const fixedLength = len(beginV2) + 4

// A Header is the content of a PROXY header.
type Header struct {
	// Source is the client's address, and Destination the address that the client connected to.
	// Both are invalid if the header contains no TCP addresses; the connection's own addresses then
	// apply. They are never IPv4-mapped.
	Source, Destination netip.AddrPort

	// Local says that the proxy made the connection for itself, such as for a health check.
	Local bool
}

// Errors about a connection that should begin with a PROXY header.
var (
	// ErrHeader says that a connection began without a valid PROXY header.
	ErrHeader = errors.New("PROXY header")

	// ErrNone says that the connection began with something other than a PROXY header: the proxy is
	// not configured to send one. It also matches ErrHeader.
	ErrNone error = errNone
)

// ErrShort says that the received bytes are the beginning of a header, and the rest is missing.
var ErrShort = errors.New("PROXY header: more bytes are wanted")

// A headerError describes why a header is invalid.
type headerError string

func (e headerError) Error() string { return ErrHeader.Error() + ": " + string(e) }

// Is reports whether target is ErrHeader, so that all of these errors match it.
func (e headerError) Is(target error) bool { return target == ErrHeader }

const (
	errNone     = headerError("the connection begins with something else; is the peer a proxy that sends one?")
	errLong     = headerError("longer than any is")
	errLine     = headerError("the line is not one of version 1")
	errEnd      = headerError("the line does not end with CR LF alone")
	errFamily   = headerError("a family that version 1 does not have; it has TCP4, TCP6 and UNKNOWN")
	errAddress  = headerError("an address that is not of the family, or not in its usual form")
	errPort     = headerError("a port that is not a number from 0 to 65535 without leading zeros")
	errVersion  = headerError("a version that is neither 1 nor 2")
	errCommand  = headerError("a command that is neither LOCAL nor PROXY")
	errKind     = headerError("an address family or transport that version 2 does not have")
	errFew      = headerError("shorter than the addresses of its family")
	errTLV      = headerError("a field (TLV) that goes beyond the end")
	errChecksum = headerError("its checksum (CRC32c) is wrong")
)

// Parse parses the header at the beginning of b, and returns its length. While b may be the
// beginning of a valid header, the error is ErrShort; as soon as it cannot be, another error.
// Parsing a valid header allocates nothing.
func Parse(b []byte) (h Header, n int, err error) {
	switch {
	case begins(b, beginV1):
		return parseV1(b)
	case begins(b, beginV2):
		return parseV2(b)
	}
	return Header{}, 0, errNone
}

// begins reports whether b begins with word, or is shorter and equals the beginning of word.
func begins(b []byte, word string) bool {
	n := min(len(b), len(word))
	return string(b[:n]) == word[:n]
}

// parseV1 parses a header of version 1, which is a line of text (§2.1).
func parseV1(b []byte) (h Header, n int, err error) {
	line := b[:min(len(b), maxLine)]
	end := bytes.IndexAny(line, "\r\n")
	switch {
	case end < 0 && len(b) >= maxLine, end == maxLine-1:
		return Header{}, 0, errLong
	case end < 0, end == len(line)-1 && line[end] == '\r':
		return Header{}, 0, ErrShort
	case line[end] != '\r' || line[end+1] != '\n':
		return Header{}, 0, errEnd
	}
	n = end + 2
	line = line[len(beginV1):end]
	family, rest, more := bytes.Cut(line, space)
	// The switch converts family to a string without allocating one.
	switch string(family) {
	case "UNKNOWN": // the rest of the line must be ignored
		return Header{}, n, nil
	case "TCP4", "TCP6":
	default:
		return Header{}, 0, errFamily
	}
	var words [4][]byte
	for i := range words {
		if !more {
			return Header{}, 0, errLine
		}
		words[i], rest, more = bytes.Cut(rest, space)
	}
	if more {
		return Header{}, 0, errLine
	}
	src, ok := parseIP(words[0])
	dst, ok2 := parseIP(words[1])
	if is4 := family[3] == '4'; !ok || !ok2 || src.Is4() != is4 || dst.Is4() != is4 {
		return Header{}, 0, errAddress
	}
	from, ok := parsePort(words[2])
	to, ok2 := parsePort(words[3])
	if !ok || !ok2 {
		return Header{}, 0, errPort
	}
	h.Source = netip.AddrPortFrom(src.Unmap(), from)
	h.Destination = netip.AddrPortFrom(dst.Unmap(), to)
	return h, n, nil
}

var space = []byte{' '}

// parsePort parses a decimal number without a sign or leading zeros.
func parsePort(b []byte) (uint16, bool) {
	n, err := strconv.ParseUint(string(b), 10, 16)
	return uint16(n), err == nil && (len(b) == 1 || b[0] != '0')
}

// parseIP parses an address without a zone. [netip.ParseAddr] does not keep its argument, so the
// bytes need not be copied.
func parseIP(b []byte) (netip.Addr, bool) {
	a, err := netip.ParseAddr(unsafe.String(unsafe.SliceData(b), len(b)))
	return a, err == nil && a.Zone() == ""
}

// The codes of commands, families and transports in version 2 (§2.2).
const (
	proxyLocal = 0
	proxyProxy = 1

	proxyUnspec = 0
	proxyInet   = 1
	proxyInet6  = 2
	proxyUnix   = 3

	proxyStream = 1
	proxyDgram  = 2
)

// proxyAddresses is the length of the addresses and ports in a header, in bytes, by family.
var proxyAddresses = [...]int{proxyUnspec: 0, proxyInet: 2*4 + 2*2, proxyInet6: 2*16 + 2*2, proxyUnix: 2 * 108}

// parseV2 parses a header of version 2, which is binary (§2.2).
func parseV2(b []byte) (h Header, n int, err error) {
	// Check the first bytes before the fixed part is complete, so that an invalid header fails
	// early.
	if at := len(beginV2); len(b) > at {
		if b[at]>>4 != 2 {
			return Header{}, 0, errVersion
		}
		if b[at]&15 > proxyProxy {
			return Header{}, 0, errCommand
		}
	}
	if len(b) < fixedLength {
		return Header{}, 0, ErrShort
	}
	command := b[len(beginV2)] & 15
	family, transport := b[len(beginV2)+1]>>4, b[len(beginV2)+1]&15
	n = fixedLength + int(binary.BigEndian.Uint16(b[fixedLength-2:]))
	switch {
	case n > MaxLength:
		return Header{}, 0, errLong
	case command == proxyLocal, family == proxyUnspec && transport == 0:
		// The addresses, whatever they are, must be skipped. With LOCAL, even the family is
		// ignored.
		if len(b) < n {
			return Header{}, 0, ErrShort
		}
		return Header{Local: command == proxyLocal}, n, nil
	case int(family) >= len(proxyAddresses) || transport > proxyDgram || family == proxyUnspec || transport == 0:
		return Header{}, 0, errKind
	case n < fixedLength+proxyAddresses[family]:
		return Header{}, 0, errFew
	case len(b) < n:
		return Header{}, 0, ErrShort
	}
	b = b[:n]
	from := b[fixedLength:]
	if err := checkTLVs(b, fixedLength+proxyAddresses[family]); err != nil {
		return Header{}, 0, err
	}
	// Datagrams and names of unix sockets are not TCP addresses. The connection keeps its own
	// addresses.
	if transport != proxyStream {
		return Header{}, n, nil
	}
	switch family {
	case proxyInet:
		src, dst := netip.AddrFrom4([4]byte(from)), netip.AddrFrom4([4]byte(from[4:]))
		h.Source = netip.AddrPortFrom(src, binary.BigEndian.Uint16(from[8:]))
		h.Destination = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(from[10:]))
	case proxyInet6:
		src, dst := netip.AddrFrom16([16]byte(from)).Unmap(), netip.AddrFrom16([16]byte(from[16:])).Unmap()
		h.Source = netip.AddrPortFrom(src, binary.BigEndian.Uint16(from[32:]))
		h.Destination = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(from[34:]))
	}
	return h, n, nil
}

// proxyCRC is the type of the field that holds a checksum: PP2_TYPE_CRC32C of §2.2.3.
const proxyCRC = 3

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	// noSum holds zeros in place of the checksum. A local variable would be allocated for each
	// header.
	noSum = make([]byte, crc32.Size)
)

// checkTLVs checks that the fields (TLVs) from offset `at` fill the header exactly. It verifies the
// checksum, if there is one, and ignores all other fields.
func checkTLVs(header []byte, at int) error {
	const head = 3 // length of a field's type and length, in bytes
	sum := 0       // offset of the checksum's value; 0 without a checksum
	for at < len(header) {
		if len(header)-at < head {
			return errTLV
		}
		kind, size := header[at], int(binary.BigEndian.Uint16(header[at+1:]))
		if at += head; size > len(header)-at {
			return errTLV
		}
		if kind == proxyCRC {
			// The protocol does not define what two checksums would cover.
			if size != crc32.Size || sum != 0 {
				return errChecksum
			}
			sum = at
		}
		at += size
	}
	if sum == 0 {
		return nil
	}
	// The checksum covers the header with zeros in place of the checksum (§2.2.3).
	crc := crc32.Update(0, castagnoli, header[:sum])
	crc = crc32.Update(crc, castagnoli, noSum)
	crc = crc32.Update(crc, castagnoli, header[sum+crc32.Size:])
	if crc != binary.BigEndian.Uint32(header[sum:]) {
		return errChecksum
	}
	return nil
}

// Read reads the header at the beginning of a connection. rest is a part of buf, with the bytes
// that were received after the header; the caller must use them before it reads more from c. buf
// should have room for MaxLength bytes; a header that does not fit into it is refused.
//
// If the connection is closed before its first byte, as by a port scan, the error is io.EOF; if it
// is closed within the header, io.ErrUnexpectedEOF. The caller has to limit the time.
func Read(c io.Reader, buf []byte) (h Header, rest []byte, err error) {
	const patience = 100 // number of reads without a byte in a row before Read gives up, as in package bufio
	for n, idle := 0, 0; ; {
		got, failed := c.Read(buf[n:])
		n += got
		h, size, err := Parse(buf[:n])
		switch {
		case err == nil:
			// If the connection has failed after the header, the caller's next read returns the
			// error.
			return h, buf[size:n], nil
		case err != ErrShort:
			return Header{}, nil, err
		case failed == io.EOF && n > 0:
			return Header{}, nil, io.ErrUnexpectedEOF
		case failed != nil:
			return Header{}, nil, failed
		case n == len(buf):
			return Header{}, nil, errLong
		}
		if idle++; got > 0 {
			idle = 0
		} else if idle == patience {
			return Header{}, nil, io.ErrNoProgress
		}
	}
}

// Failed returns the error for a connection whose header could not be read because of err. It
// matches ErrHeader.
func Failed(err error) error {
	if errors.Is(err, ErrHeader) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrHeader, err)
}
