package udp

import "time"

// SetConfig describes the sockets that a [Set] opens. The zero value suits peers that send one
// short datagram at a time.
type SetConfig struct {
	// Bulk is for peers that send many datagrams at a time. The kernel then glues received datagrams
	// together, and the sockets have large buffers.
	Bulk bool

	// Buffer is the size in bytes of each socket's send buffer and receive buffer in the kernel. 0
	// means the system's default, or 4 MiB with Bulk. The kernel may provide less.
	Buffer int

	// Datagram is the length in bytes of the longest datagram that the caller expects; longer ones
	// are cut off. 0 means 64 KiB. A small value saves memory only on the portable path, because on
	// Linux all sockets of a Set share the memory for received datagrams.
	Datagram int
}

const (
	maxReady      = 256     // the largest number of members that one Wait returns
	wholeDatagram = 1 << 16 // bytes; no datagram is longer
)

func (c SetConfig) datagram() int {
	if c.Datagram <= 0 || c.Bulk {
		return wholeDatagram
	}
	return c.Datagram
}

// later reports whether deadline is in the future. That includes the zero deadline, which never
// passes.
func later(deadline time.Time) bool {
	return deadline.IsZero() || time.Until(deadline) > 0
}
