// Package udp moves datagrams in batches.
//
// On Linux a [Conn] uses recvmmsg and sendmmsg, and lets the kernel cut one buffer into many
// datagrams (UDP_SEGMENT) or glue many datagrams together in one buffer (UDP_GRO). On other systems
// it moves one datagram per call. The same code of a caller works on all systems, because it reads
// [Conn.Limits] and works even if every limit is one.
//
// A loop of a server owns the memory and one Conn, and repeats:
//
//	for {
//		n, err := conn.Read(in, earliestDeadline) // wait for data, time or Wake
//		if err != nil {
//			return err
//		}
//		for i := range in[:n] {
//			for datagram := range in[i].Datagrams() {
//				handle(in[i].Peer, datagram) // may fill out
//			}
//		}
//		send(conn, out)
//	}
//
// The example of this package is a complete program. The page
// https://github.com/haul-project/haul/blob/main/docs/decisions/001-waiting-for-datagrams.md
// explains how Read waits.
//
// A client that needs thousands of ports uses a [Set]: one goroutine waits for all its sockets.
//
// The build tag haul_portable selects the portable path on Linux too, so that one machine can test
// both.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
package udp

import (
	"cmp"
	"iter"
	"net/netip"
)

// A Message is one datagram, or several of one size that share a peer.
type Message struct {
	Peer    netip.AddrPort // source or destination; never an IPv4-mapped address
	Local   netip.Addr     // our address, to which the message was sent or from which it is sent; zero lets the kernel choose
	Data    []byte         // Read fills Data[:cap] and sets the length
	Segment int            // when above zero, Data holds datagrams of this many bytes; the last may be shorter

	// Broadcast says that Read received a datagram that was sent to all hosts of a network. If
	// several sockets share a port, each of them receives a copy. Only the Linux path sets
	// Broadcast, and only for IPv4.
	Broadcast bool
}

// Datagrams yields the datagrams in m, each a slice of m.Data. There is always
// at least one, since a datagram may be empty.
func (m *Message) Datagrams() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest := m.Data
		for m.Segment > 0 && len(rest) > m.Segment {
			// The capacity ends with the datagram, so that appending to a datagram cannot overwrite
			// the next one.
			if !yield(rest[:m.Segment:m.Segment]) {
				return
			}
			rest = rest[m.Segment:]
		}
		yield(rest)
	}
}

// Config says how [Listen] opens a socket. With the zero value the socket does not share its port,
// and uses all offloads of the kernel.
type Config struct {
	Buffer    int  // bytes of kernel buffer in each direction; 0 means 4 MiB; the kernel may provide less
	ReusePort bool // share the port, if [CanSharePort]; the kernel distributes the peers among the sockets
	Plain     bool // use no offloads, as if the kernel had none
	Refusals  bool // Linux: let Read report hosts that answer that the port is closed

	// Busy is for a server's few sockets that are seldom idle. On Linux their reader waits in a
	// system call. That costs a thread while it waits, but takes less time than Go's network
	// poller, which is made for thousands of waiting goroutines.
	Busy bool
}

const defaultBuffer = 4 << 20 // bytes; 2,900 full Ethernet frames, 23 ms at 1 Gb/s

func (c Config) buffer() int { return cmp.Or(c.Buffer, defaultBuffer) }

// Limits says how much one call can move. Messages, Segments and Datagram are 1 on the portable
// path.
type Limits struct {
	Messages int // how many messages a Read moves at most; Write takes any number
	Segments int // how many datagrams it makes sense to put into a message that is sent; falls to 1 if the device refuses to cut it up

	// Datagram is how many bytes the Data of a message must have at least for Read: 64 KiB if
	// datagrams arrive glued together. If it is 1, Data need only have room for the longest
	// datagram expected.
	Datagram int

	// Buffer is the kernel's limit for datagrams that are received but not yet read, in bytes.
	// Linux counts its own memory against it: about twice the payload for full Ethernet frames, and
	// more for smaller frames.
	Buffer int
}

// maxPayload is how many bytes a UDP datagram carries at most over IPv4: 65,535 minus an IP header
// of 20 (RFC 791 §3.1) and a UDP header of 8 (RFC 768). IPv6 has room for 20 more, which no caller
// needs. The kernel has the same limit for a buffer that it cuts up (net/ipv4/ip_output.c,
// __ip_append_data).
const maxPayload = 65507

// maxSegments is how many datagrams the kernel cuts from one buffer at most. It is UDP_MAX_SEGMENTS
// in include/linux/udp.h, before Linux 6.9 raised that to 128.
const maxSegments = 64

// A piece is the part of a message that one kernel call takes: as many whole segments as the kernel
// can cut up at once, or a single datagram.
type piece struct {
	offset  int // bytes of the message's Data before the piece
	length  int // bytes
	segment int // size of each datagram if the kernel must cut the piece; zero for one datagram
}

// next returns the piece of m that begins at offset and has at most segments datagrams.
func (m *Message) next(offset, segments int) piece {
	p := piece{offset: offset, length: len(m.Data) - offset}
	if m.Segment <= 0 || p.length <= m.Segment {
		return p
	}
	whole := min(segments, maxPayload/m.Segment)
	if whole <= 1 {
		p.length = m.Segment
		return p
	}
	p.length = min(p.length, whole*m.Segment)
	p.segment = m.Segment
	return p
}
