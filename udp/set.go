package udp

import "time"

// SetConfig chooses the kind of sockets that a [Set] opens. The zero value is for peers that send
// one short datagram at a time.
type SetConfig struct {
	// Bulk is for peers that send many datagrams at once. They are received glued together, into
	// large kernel buffers.
	Bulk bool

	// Buffer is the size of each socket's kernel buffer, each way, in bytes. 0 means the system's
	// default, or 4 MiB with Bulk. A smaller buffer is accepted.
	Buffer int

	// Datagram is the length in bytes of the longest datagram expected; longer ones are cut. 0
	// means 64 KiB. On the fast path sockets share their memory, so only the portable path saves
	// memory by it.
	Datagram int
}

const (
	maxReady      = 256     // members that one Wait returns at most
	wholeDatagram = 1 << 16 // bytes; no datagram is longer
)

func (c SetConfig) datagram() int {
	if c.Datagram <= 0 || c.Bulk {
		return wholeDatagram
	}
	return c.Datagram
}

// later reports whether a wait until deadline would actually wait; a zero deadline never passes.
func later(deadline time.Time) bool {
	return deadline.IsZero() || time.Until(deadline) > 0
}
