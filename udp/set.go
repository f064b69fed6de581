package udp

import "time"

// SetConfig chooses what kind of sockets a [Set] opens. The zero value is for
// peers that send one short datagram at a time.
type SetConfig struct {
	// Bulk is for peers that send many datagrams at once: they are received
	// glued together, into large kernel buffers.
	Bulk bool

	// Buffer is the bytes of kernel buffer of each socket, each way. 0 means
	// what the system gives, or with Bulk 4 MiB; less is accepted.
	Buffer int

	// Datagram is the length in bytes of the longest datagram that will come;
	// a longer one is cut. 0 means 64 KiB. Sockets of the fast path share their
	// memory, so that only the portable path saves any by knowing.
	Datagram int
}

const (
	maxReady      = 256     // members that one Wait reports
	wholeDatagram = 1 << 16 // bytes; no datagram is longer
)

func (c SetConfig) datagram() int {
	if c.Datagram <= 0 || c.Bulk {
		return wholeDatagram
	}
	return c.Datagram
}

// later reports whether a wait until deadline would not be over at once; zero
// is never.
func later(deadline time.Time) bool {
	return deadline.IsZero() || time.Until(deadline) > 0
}
