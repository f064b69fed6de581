package trace

import (
	"net/netip"
	"time"
)

// A Packet is one datagram sent or received.
type Packet struct {
	Time time.Time      // shown in its own time zone
	Sent bool           // sent from Local to Peer; otherwise from Peer to Local
	Peer netip.AddrPort // the other side

	// Local is our side. The address may be zero if only the port is known. But Wireshark recognizes
	// a transfer by its request to port 69, and only if our address is the same in all its packets.
	Local netip.AddrPort

	Data []byte // the UDP payload
}

// MaxDatagram is the largest number of bytes that are recorded of one datagram. It is the longest
// UDP payload that an IPv4 packet carries (RFC 791 §3.1, RFC 768). The longest packet of TFTP is a
// DATA of 65,468 bytes (RFC 2348).
const MaxDatagram = 65507

// A queued packet waits to be written. Its Data is a part of its batch's data.
type queued struct {
	Packet
	lost int64 // packets dropped directly before this one
}

// A form converts packets to a format, and appends the bytes to a buffer.
type form interface {
	begin(b []byte) []byte
	packet(b []byte, q *queued) []byte
	end(b []byte, lost int64) []byte
}
