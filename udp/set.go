package udp

import "time"

// SetConfig chooses the kind of sockets that a [Set] opens. The zero value is for peers that send
// one short datagram at a time.
type SetConfig struct {
	// Bulk is for peers that send many datagrams at once. The kernel glues these together, and has
	// large buffers for them.
	Bulk bool

	// Buffer is the size in bytes of each socket's kernel buffer in each direction. 0 means the
	// system's default, or 4 MiB with Bulk. The kernel may provide less.
	Buffer int

	// Datagram is the length in bytes of the longest datagram expected; longer ones are cut off. 0
	// means 64 KiB. It saves memory only on the portable path, because on Linux sockets share their
	// memory.
	Datagram int
}

const (
	maxReady      = 256     // how many members one Wait returns at most
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
