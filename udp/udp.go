// Package udp moves datagrams in batches.
//
// On Linux a [Conn] uses recvmmsg and sendmmsg, and lets the kernel cut one
// buffer into many datagrams (UDP_SEGMENT) or glue many into one (UDP_GRO).
// Elsewhere it moves one datagram per call. Callers need only one version: they read [Conn.Limits],
// and work the same if every limit is one.
//
// A server's loop owns the memory and one Conn, and repeats:
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
// The example of the package is a first program. The page
// https://github.com/haul-project/haul/blob/main/docs/decisions/001-waiting-for-datagrams.md
// explains how Read waits.
//
// A client that needs thousands of ports opens a [Set]: one goroutine waits for all its sockets.
//
// The build tag haul_portable selects the portable path on Linux too, so that
// one machine can test both.
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
	Local   netip.Addr     // our address that it was sent to or is sent from; zero lets the kernel choose
	Data    []byte         // Read fills Data[:cap] and sets the length
	Segment int            // when above zero, Data holds datagrams of this many bytes; the last may be shorter

	// Broadcast says that Read received a datagram that was sent to all hosts of a network. Each of
	// several sockets that share a port gets a copy. Only the fast path sets it, and only for IPv4.
	Broadcast bool
}

// Datagrams yields the datagrams in m, each a slice of m.Data. There is always
// at least one, since a datagram may be empty.
func (m *Message) Datagrams() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest := m.Data
		for m.Segment > 0 && len(rest) > m.Segment {
			// The capacity ends with the datagram, so that appending to one cannot overwrite the
			// next.
			if !yield(rest[:m.Segment:m.Segment]) {
				return
			}
			rest = rest[m.Segment:]
		}
		yield(rest)
	}
}

// Config chooses how [Listen] opens a socket. The zero value means a port of its own and every
// offload of the kernel.
type Config struct {
	Buffer    int  // bytes of kernel buffer each way; 0 means 4 MiB, and less is accepted
	ReusePort bool // share the port, if [CanSharePort]; the kernel spreads peers over the sharers
	Plain     bool // use no offloads, as if the kernel had none
	Refusals  bool // Linux: let Read report hosts that answer that the port is closed

	// Busy is for a server's few sockets that are seldom idle. On Linux their reader waits in a
	// system call. That costs a thread while it waits, but takes less time than Go's network
	// poller, which is made for thousands of waiting goroutines.
	Busy bool
}

const defaultBuffer = 4 << 20 // bytes; 2,900 full Ethernet frames, 23 ms at 1 Gb/s

func (c Config) buffer() int { return cmp.Or(c.Buffer, defaultBuffer) }

// Limits is how much one call can move. Messages, Segments and Datagram are 1 on the portable path.
type Limits struct {
	Messages int // most messages moved per Read; Write takes any number
	Segments int // most datagrams worth putting into a message to send; falls to 1 if the device refuses

	// Datagram is the least size of a message's Data, in bytes, for Read to use it: 64 KiB if
	// datagrams arrive glued together. If it is 1, Data need only hold the longest datagram
	// expected.
	Datagram int

	// Buffer is the kernel's limit for datagrams received but not yet read, in bytes. Linux counts
	// its own memory against it: about twice the payload of full Ethernet frames, and more for
	// smaller ones.
	Buffer int
}

// maxPayload is the most bytes that a UDP datagram carries over IPv4: 65,535 minus an IP header of
// 20 (RFC 791 §3.1) and a UDP header of 8 (RFC 768). IPv6 has room for 20 more, which no caller
// needs. The kernel limits a buffer that it cuts up to the same size (net/ipv4/ip_output.c,
// __ip_append_data).
const maxPayload = 65507

// maxSegments is the most datagrams that the kernel cuts from one buffer: UDP_MAX_SEGMENTS in
// include/linux/udp.h, before 6.9 raised it to 128.
const maxSegments = 64

// A piece is the part of a message that one kernel call takes: as many whole segments as the kernel
// can cut up at once, or a single datagram.
type piece struct {
	offset  int // bytes of Data before it
	length  int // bytes
	segment int // datagram size if the kernel must cut it; zero for one datagram
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
