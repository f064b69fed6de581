// Package udp sends and receives datagrams, many of them in each system call where possible.
//
// On Linux a [Conn] uses recvmmsg and sendmmsg. It also lets the kernel cut one buffer into many
// datagrams (UDP_SEGMENT), and glue many received datagrams together in one buffer (UDP_GRO). On
// other systems it moves one datagram per call. The same code of a caller works on all systems if
// it reads [Conn.Limits] and does not assume that any limit is more than 1.
//
// A server's loop owns one Conn and the memory for messages, and repeats:
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

// A Message is one datagram, or several datagrams of the same size with the same peer.
type Message struct {
	// Peer is the source of a received message, or the destination of a sent one; never an
	// IPv4-mapped address.
	Peer netip.AddrPort
	// Local is this host's address: the address to which a received message was sent, or from which
	// to send a message. If it is zero, the kernel chooses the address to send from.
	Local   netip.Addr
	Data    []byte // the content; Read fills it up to its capacity and sets its length
	Segment int    // if above 0, Data holds several datagrams of this many bytes; the last may be shorter

	// Broadcast says that the received datagram was sent to all hosts of a network. If several
	// sockets share a port, each of them receives a copy. It is only set on Linux (not with
	// haul_portable), and only for IPv4.
	Broadcast bool
}

// Datagrams yields the datagrams in m, each of which is a slice of m.Data. An empty Data is one
// empty datagram.
func (m *Message) Datagrams() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		rest := m.Data
		for m.Segment > 0 && len(rest) > m.Segment {
			// The capacity of a slice is limited to its datagram, so that appending to it cannot
			// overwrite the next datagram.
			if !yield(rest[:m.Segment:m.Segment]) {
				return
			}
			rest = rest[m.Segment:]
		}
		yield(rest)
	}
}

// Config describes the socket that [Listen] opens. With the zero value, the socket does not share
// its port, and uses all offloads of the kernel.
type Config struct {
	// Buffer is the size of the kernel's send buffer and of its receive buffer, in bytes; 0 means 4
	// MiB. The kernel may provide less.
	Buffer int
	// ReusePort shares the port with other sockets; the kernel distributes the peers among them. It
	// needs [CanSharePort].
	ReusePort bool
	Plain     bool // use no offloads, as if the kernel had none
	Refusals  bool // only on Linux: Read returns an error when a host answers that its port is closed

	// Busy is for the few sockets of a server that are seldom idle. On Linux their reader waits in
	// a system call. That occupies a thread meanwhile, but takes less time than Go's network
	// poller, which is made for thousands of waiting goroutines.
	Busy bool
}

const defaultBuffer = 4 << 20 // bytes: 2,900 full Ethernet frames, or 23 ms of data at 1 Gb/s

func (c Config) buffer() int { return cmp.Or(c.Buffer, defaultBuffer) }

// Limits says how much one call can move. Messages, Segments and Datagram are 1 on the portable
// path.
type Limits struct {
	Messages int // the largest number of messages that one Read returns; Write takes any number
	// Segments is the largest number of datagrams that a message to be sent should hold. It falls
	// to 1 if the device refuses to cut messages up.
	Segments int

	// Datagram is how many bytes the Data of a message for Read must at least have. It is 64 KiB if
	// datagrams may arrive glued together. If it is 1, Data only needs room for the longest
	// datagram that the caller expects.
	Datagram int

	// Buffer is the size in bytes of the kernel's receive buffer, which holds datagrams that are
	// not yet read. Linux counts its own memory for a datagram: about twice the payload for full
	// Ethernet frames, and more for smaller frames.
	Buffer int
}

// maxPayload is the largest payload of a UDP datagram over IPv4, in bytes: 65,535 minus an IP
// header of 20 (RFC 791 §3.1) and a UDP header of 8 (RFC 768). Over IPv6 the limit is 20 bytes
// higher, which no caller needs. The kernel has the same limit for a buffer that it cuts up
// (net/ipv4/ip_output.c, __ip_append_data).
const maxPayload = 65507

// maxSegments is the largest number of datagrams that the kernel cuts from one buffer:
// UDP_MAX_SEGMENTS in include/linux/udp.h, before Linux 6.9 raised it to 128.
const maxSegments = 64

// A piece is the part of a message that the kernel takes as one unit: as many whole segments as it
// can cut up at a time, or a single datagram.
type piece struct {
	offset  int // where the piece begins in the message's Data, in bytes
	length  int // length of the piece, in bytes
	segment int // size of the datagrams into which the kernel must cut the piece; 0 if the piece is one datagram
}

// next returns the piece of m that begins at offset. It holds at most `segments` datagrams.
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
