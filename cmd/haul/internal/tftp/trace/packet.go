package trace

import (
	"net/netip"
	"time"
)

// A Packet is one datagram sent or received.
type Packet struct {
	Time time.Time      // shown in its own time zone
	Sent bool           // from Local to Peer; otherwise from Peer to Local
	Peer netip.AddrPort // the other side

	// Local is our side. The address may be zero if only the port is known. But Wireshark recognizes
	// a transfer by its request to port 69, and only if our address is the same in all its packets.
	Local netip.AddrPort

	Data []byte // the UDP payload
}

// MaxDatagram is the most bytes of a datagram that are recorded: the most that an IPv4 packet carries
// (RFC 791 §3.1, RFC 768). The longest packet of TFTP is a DATA of 65,468 bytes (RFC 2348).
const MaxDatagram = 65507

// A queued packet's Data is a part of its batch's data.
type queued struct {
	Packet
	lost int64 // packets dropped just before it
}

// A form turns packets into bytes, appended to a buffer.
type form interface {
	begin(b []byte) []byte
	packet(b []byte, q *queued) []byte
	end(b []byte, lost int64) []byte
}
