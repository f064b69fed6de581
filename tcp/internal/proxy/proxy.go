// Package proxy reads headers of the PROXY protocol, with which a load balancer names the client of
// a connection. The header precedes the client's first byte, as a line of text (version 1) or in
// binary (version 2). HAProxy's proxy-protocol.txt describes both; section numbers below refer to
// it.
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

// The bounds of a header's length, in bytes.
const (
	// maxLine is the longest line of version 1, with its CR LF (§2.1).
	maxLine = 107

	// MaxLength is the longest header of version 2 that is accepted. The protocol allows 64 KiB,
	// and says that a header fits into a segment (§2). Load balancers add a few hundred bytes to
	// the addresses. A limit of 4 KiB also leaves room for a client's certificate.
	MaxLength = 4 << 10
)

// A header begins with one of these (§2.1 and §2.2). No other protocol begins with the second one.
const (
	beginV1 = "PROXY "
	beginV2 = "\r\n\r\n\x00\r\nQUIT\n"
)

// fixedLength is the length of the fixed part of version 2: the beginning, version and
// command, family and transport, and the length of the rest.
const fixedLength = len(beginV2) + 4

// A Header is the content of a PROXY header.
type Header struct {
	// Source is the client, and Destination the address that it connected to. Both are invalid if
	// the header names no TCP addresses; then use the addresses of the connection. They are never
	// IPv4-mapped.
	Source, Destination netip.AddrPort

	// Local says that the connection is the proxy's own, such as a health check.
	Local bool
}

// Errors of a connection that should begin with a PROXY header.
var (
	// ErrHeader says that a connection began without a valid PROXY header.
	ErrHeader = errors.New("PROXY header")

	// ErrNone says that the connection began with something other than a PROXY header: the proxy is
	// not configured to send one. It also matches ErrHeader.
	ErrNone error = errNone
)

// ErrShort says that a header continues beyond the bytes received.
var ErrShort = errors.New("PROXY header: more bytes are wanted")

// A headerError describes a fault in a header.
type headerError string

func (e headerError) Error() string { return ErrHeader.Error() + ": " + string(e) }

// Is reports that it matches ErrHeader.
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

// Parse parses the header at the beginning of b, and returns its length. It returns
// ErrShort as long as b may be the beginning of a header, and another error as soon as it
// cannot. A valid header allocates nothing.
func Parse(b []byte) (h Header, n int, err error) {
	switch {
	case begins(b, beginV1):
		return parseV1(b)
	case begins(b, beginV2):
		return parseV2(b)
	}
	return Header{}, 0, errNone
}

// begins reports whether b begins with the word, or is itself the beginning of it.
func begins(b []byte, word string) bool {
	n := min(len(b), len(word))
	return string(b[:n]) == word[:n]
}

// parseV1 parses a header of version 1, a line: §2.1.
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
	// The switch converts without a copy.
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

// parsePort parses a number without a sign and leading zeros.
func parsePort(b []byte) (uint16, bool) {
	n, err := strconv.ParseUint(string(b), 10, 16)
	return uint16(n), err == nil && (len(b) == 1 || b[0] != '0')
}

// parseIP parses an address without a zone. [netip.ParseAddr] does not keep the text that it
// parses, so the text need not be copied.
func parseIP(b []byte) (netip.Addr, bool) {
	a, err := netip.ParseAddr(unsafe.String(unsafe.SliceData(b), len(b)))
	return a, err == nil && a.Zone() == ""
}

// Commands, families and transports of version 2: §2.2.
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

// proxyAddresses is the size of the addresses and ports, by family, in bytes.
var proxyAddresses = [...]int{proxyUnspec: 0, proxyInet: 2*4 + 2*2, proxyInet6: 2*16 + 2*2, proxyUnix: 2 * 108}

// parseV2 parses a header of version 2, in binary: §2.2.
func parseV2(b []byte) (h Header, n int, err error) {
	// Received bytes are checked at once, so that an invalid header fails before the rest of it has
	// arrived.
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
		// The rest must be skipped; with LOCAL, the family as well.
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
	// Datagrams and names of unix sockets have no TCP addresses: the connection keeps its own.
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

// proxyCRC is the field that holds a checksum: PP2_TYPE_CRC32C of §2.2.3.
const proxyCRC = 3

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	noSum      = make([]byte, crc32.Size) // a local one would go to the heap
)

// checkTLVs walks the fields of a header, which begin at offset at, and verifies the
// checksum if there is one. It ignores other fields.
func checkTLVs(header []byte, at int) error {
	const head = 3 // bytes: type, and the length of the value
	sum := 0       // offset of the checksum
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

// Read reads the header at the beginning of a connection. rest, a part of buf, holds the bytes
// received after the header; they precede all bytes read from c later. buf should have room for
// MaxLength bytes; a header that does not fit is refused.
//
// For a connection that ends before its first byte, such as a port scan, Read returns io.EOF, and
// for one that ends later io.ErrUnexpectedEOF. The caller limits the time.
func Read(c io.Reader, buf []byte) (h Header, rest []byte, err error) {
	const patience = 100 // reads in a row without a byte, as in package bufio
	for n, idle := 0, 0; ; {
		got, failed := c.Read(buf[n:])
		n += got
		h, size, err := Parse(buf[:n])
		switch {
		case err == nil:
			// If the connection failed after the header, its next Read returns the error.
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

// Failed returns the error for a connection whose header could not be read because of err.
func Failed(err error) error {
	if errors.Is(err, ErrHeader) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrHeader, err)
}
