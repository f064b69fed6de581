package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net/netip"
	"strconv"
	"unsafe"
)

// By the PROXY protocol a load balancer names the client of a connection: in a header before
// the client's first byte, as a line of text (version 1) or in binary (version 2). HAProxy's
// proxy-protocol.txt describes both; section numbers below are those of that document.

// The bounds of a header's length, in bytes.
const (
	// maxProxyV1 is the longest line of version 1, with its CR LF (§2.1).
	maxProxyV1 = 107

	// maxProxyV2 is the longest header of version 2 that is accepted. The protocol
	// allows 64 KiB, and says that a header fits into a segment (§2). Balancers add a few
	// hundred bytes to the addresses; 4 KiB leave room for a client's certificate.
	maxProxyV2 = 4 << 10
)

// The beginning of a header: §2.1 and §2.2. No other protocol begins with the second.
const (
	proxyV1 = "PROXY "
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"
)

// proxyFixed is the length of the fixed part of version 2: the beginning, version and
// command, family and transport, and the length of the rest.
const proxyFixed = len(proxyV2) + 4

// A proxyHeader is what a PROXY header says about a connection.
type proxyHeader struct {
	// Source is the client, and Destination the address it connected to. Both are invalid
	// if the header names no addresses of TCP; then use those of the connection. They are
	// never IPv4-mapped.
	Source, Destination netip.AddrPort

	// Local says that the connection is the proxy's own, such as a health check.
	Local bool
}

// Errors of a connection that should begin with a PROXY header.
var (
	// ErrProxyHeader says that a connection from one of [Server.Proxies] began without a
	// valid PROXY header.
	ErrProxyHeader = errors.New("PROXY header")

	// ErrNoProxyHeader says that it began with something else: the proxy is not set up to
	// send a header. It is an ErrProxyHeader, too.
	ErrNoProxyHeader error = errProxyNone
)

// errShort says that a header continues beyond the bytes received.
var errShort = errors.New("PROXY header: more bytes are wanted")

// A proxyError is what is wrong with a header.
type proxyError string

func (e proxyError) Error() string { return ErrProxyHeader.Error() + ": " + string(e) }

// Is reports that it is an ErrProxyHeader.
func (e proxyError) Is(target error) bool { return target == ErrProxyHeader }

const (
	errProxyNone     = proxyError("the connection begins with something else; is the peer a proxy that sends one?")
	errProxyLong     = proxyError("longer than any is")
	errProxyLine     = proxyError("the line is not one of version 1")
	errProxyEnd      = proxyError("the line does not end with CR LF alone")
	errProxyFamily   = proxyError("a family that version 1 does not have; it has TCP4, TCP6 and UNKNOWN")
	errProxyAddress  = proxyError("an address that is not of the family, or not in its usual form")
	errProxyPort     = proxyError("a port that is not a number from 0 to 65535 without leading zeros")
	errProxyVersion  = proxyError("a version that is neither 1 nor 2")
	errProxyCommand  = proxyError("a command that is neither LOCAL nor PROXY")
	errProxyKind     = proxyError("an address family or transport that version 2 does not have")
	errProxyShort    = proxyError("shorter than the addresses of its family")
	errProxyTLV      = proxyError("a field (TLV) that goes beyond the end")
	errProxyChecksum = proxyError("its checksum (CRC32c) is wrong")
)

// parseProxy parses the header at the beginning of b, and returns its length. It returns
// errShort as long as b may be the beginning of a header, and another error as soon as it
// cannot. A valid header allocates nothing.
func parseProxy(b []byte) (h proxyHeader, n int, err error) {
	switch {
	case begins(b, proxyV1):
		return parseProxyV1(b)
	case begins(b, proxyV2):
		return parseProxyV2(b)
	}
	return proxyHeader{}, 0, errProxyNone
}

// begins reports whether b begins with the word, as far as it goes.
func begins(b []byte, word string) bool {
	n := min(len(b), len(word))
	return string(b[:n]) == word[:n]
}

// parseProxyV1 reads a line: §2.1.
func parseProxyV1(b []byte) (h proxyHeader, n int, err error) {
	line := b[:min(len(b), maxProxyV1)]
	end := bytes.IndexAny(line, "\r\n")
	switch {
	case end < 0 && len(b) >= maxProxyV1, end == maxProxyV1-1:
		return proxyHeader{}, 0, errProxyLong
	case end < 0, end == len(line)-1 && line[end] == '\r':
		return proxyHeader{}, 0, errShort
	case line[end] != '\r' || line[end+1] != '\n':
		return proxyHeader{}, 0, errProxyEnd
	}
	n = end + 2
	line = line[len(proxyV1):end]
	family, rest, more := bytes.Cut(line, space)
	// The switch converts without a copy.
	switch string(family) {
	case "UNKNOWN": // the rest of the line must be ignored
		return proxyHeader{}, n, nil
	case "TCP4", "TCP6":
	default:
		return proxyHeader{}, 0, errProxyFamily
	}
	var words [4][]byte
	for i := range words {
		if !more {
			return proxyHeader{}, 0, errProxyLine
		}
		words[i], rest, more = bytes.Cut(rest, space)
	}
	if more {
		return proxyHeader{}, 0, errProxyLine
	}
	src, ok := parseIP(words[0])
	dst, ok2 := parseIP(words[1])
	if is4 := family[3] == '4'; !ok || !ok2 || src.Is4() != is4 || dst.Is4() != is4 {
		return proxyHeader{}, 0, errProxyAddress
	}
	from, ok := parsePort(words[2])
	to, ok2 := parsePort(words[3])
	if !ok || !ok2 {
		return proxyHeader{}, 0, errProxyPort
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

// parseIP parses an address without a zone. [netip.ParseAddr] keeps nothing of the text
// that it is given, so the text need not be copied.
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

// parseProxyV2 reads a header in binary: §2.2.
func parseProxyV2(b []byte) (h proxyHeader, n int, err error) {
	// Received bytes are checked at once: an invalid header fails before the rest of it has
	// arrived.
	if at := len(proxyV2); len(b) > at {
		if b[at]>>4 != 2 {
			return proxyHeader{}, 0, errProxyVersion
		}
		if b[at]&15 > proxyProxy {
			return proxyHeader{}, 0, errProxyCommand
		}
	}
	if len(b) < proxyFixed {
		return proxyHeader{}, 0, errShort
	}
	command := b[len(proxyV2)] & 15
	family, transport := b[len(proxyV2)+1]>>4, b[len(proxyV2)+1]&15
	n = proxyFixed + int(binary.BigEndian.Uint16(b[proxyFixed-2:]))
	switch {
	case n > maxProxyV2:
		return proxyHeader{}, 0, errProxyLong
	case command == proxyLocal, family == proxyUnspec && transport == 0:
		// The rest must be skipped; with LOCAL, the family as well.
		if len(b) < n {
			return proxyHeader{}, 0, errShort
		}
		return proxyHeader{Local: command == proxyLocal}, n, nil
	case int(family) >= len(proxyAddresses) || transport > proxyDgram || family == proxyUnspec || transport == 0:
		return proxyHeader{}, 0, errProxyKind
	case n < proxyFixed+proxyAddresses[family]:
		return proxyHeader{}, 0, errProxyShort
	case len(b) < n:
		return proxyHeader{}, 0, errShort
	}
	b = b[:n]
	from := b[proxyFixed:]
	if err := checkTLVs(b, proxyFixed+proxyAddresses[family]); err != nil {
		return proxyHeader{}, 0, err
	}
	// Datagrams and names of unix sockets are no addresses of TCP: the connection keeps its
	// own.
	if transport != proxyStream {
		return proxyHeader{}, n, nil
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
	sum := 0       // where the checksum is
	for at < len(header) {
		if len(header)-at < head {
			return errProxyTLV
		}
		kind, size := header[at], int(binary.BigEndian.Uint16(header[at+1:]))
		if at += head; size > len(header)-at {
			return errProxyTLV
		}
		if kind == proxyCRC {
			// The protocol does not define what two of them would cover.
			if size != crc32.Size || sum != 0 {
				return errProxyChecksum
			}
			sum = at
		}
		at += size
	}
	if sum == 0 {
		return nil
	}
	// It is the sum of the header with zeros in its own place (§2.2.3).
	crc := crc32.Update(0, castagnoli, header[:sum])
	crc = crc32.Update(crc, castagnoli, noSum)
	crc = crc32.Update(crc, castagnoli, header[sum+crc32.Size:])
	if crc != binary.BigEndian.Uint32(header[sum:]) {
		return errProxyChecksum
	}
	return nil
}

// readProxy reads the header at the beginning of a connection. rest, a part of buf, are the
// bytes received behind the header, which come before all that is read from c later. buf
// should have room for maxProxyV2 bytes; a header that does not fit is refused.
//
// A connection that ends before its first byte, such as a port scan, returns io.EOF, and
// one that ends later io.ErrUnexpectedEOF. The caller limits the time.
func readProxy(c io.Reader, buf []byte) (h proxyHeader, rest []byte, err error) {
	const patience = 100 // reads in a row without a byte, as of package bufio
	for n, idle := 0, 0; ; {
		got, failed := c.Read(buf[n:])
		n += got
		h, size, err := parseProxy(buf[:n])
		switch {
		case err == nil:
			// If the connection has failed behind it, its next Read says so.
			return h, buf[size:n], nil
		case err != errShort:
			return proxyHeader{}, nil, err
		case failed == io.EOF && n > 0:
			return proxyHeader{}, nil, io.ErrUnexpectedEOF
		case failed != nil:
			return proxyHeader{}, nil, failed
		case n == len(buf):
			return proxyHeader{}, nil, errProxyLong
		}
		if idle++; got > 0 {
			idle = 0
		} else if idle == patience {
			return proxyHeader{}, nil, io.ErrNoProgress
		}
	}
}
