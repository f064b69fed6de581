package tcp

import (
	"errors"
	"fmt"
	"time"
)

// Options are those of listening sockets, and of the connections that come from
// them. The zero value is good.
type Options struct {
	// Sockets is how many kernel sockets share the address (SO_REUSEPORT), each
	// with a queue of its own. 0 means one for each CPU that the process may use,
	// at most 16. There is one where the kernel cannot share it fairly, and
	// for a unix socket.
	Sockets int

	// Backlog is how many connections may wait to be accepted, on each socket. 0
	// means as many as the system allows (net.core.somaxconn).
	Backlog int

	// KeepAlive has the kernel ask silent peers whether they are there. The zero
	// value asks after 15 seconds, nine times, 15 seconds apart.
	KeepAlive KeepAlive

	// Nagle leaves Nagle's algorithm on (RFC 896): what does not fill a packet
	// waits while anything is not acknowledged. Off, TCP_NODELAY is set.
	Nagle bool

	// FastOpen is how many connections may be under way of which the first packet
	// brought data (TCP_FASTOPEN, RFC 7413); 0 means none. The data may come
	// twice: it is for requests that may be answered twice. Where the system does
	// not allow it, they come without.
	FastOpen int

	// ClientFirst accepts a connection once its client has sent something
	// (TCP_DEFER_ACCEPT), which saves much, and is only for protocols in which
	// clients speak first. One that says nothing for so long is never seen, and
	// costs a few hundred bytes in the kernel. 0 accepts at once. It counts in
	// whole seconds, as the kernel does.
	ClientFirst time.Duration

	// Congestion names the congestion control of the connections, such as "cubic"
	// or "bbr"; "" leaves the system's.
	Congestion string

	// SendBuffer is how many bytes the kernel keeps of what was sent and is not
	// acknowledged; 0 lets it choose, by what the connection needs.
	SendBuffer int
}

// KeepAlive says when a silent peer is asked whether it is there.
type KeepAlive struct {
	Off      bool
	Idle     time.Duration // silence before the first question; 0 means 15 s
	Interval time.Duration // between questions; 0 means 15 s
	Count    int           // questions without an answer that end the connection; 0 means 9
}

const (
	defaultKeepAlive      = 15 * time.Second
	defaultKeepAliveCount = 9

	// maxSockets is the most kernel sockets for one address.
	maxSockets = 64
)

func (k KeepAlive) idle() time.Duration { return orDefault(k.Idle, defaultKeepAlive) }

func (k KeepAlive) interval() time.Duration { return orDefault(k.Interval, defaultKeepAlive) }

func (k KeepAlive) count() int { return orDefault(k.Count, defaultKeepAliveCount) }

// check reports settings that make no sense.
func (o Options) check() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Sockets", int64(o.Sockets)}, {"Backlog", int64(o.Backlog)}, {"FastOpen", int64(o.FastOpen)},
		{"ClientFirst", int64(o.ClientFirst)}, {"SendBuffer", int64(o.SendBuffer)},
		{"KeepAlive.Idle", int64(o.KeepAlive.Idle)}, {"KeepAlive.Interval", int64(o.KeepAlive.Interval)}, {"KeepAlive.Count", int64(o.KeepAlive.Count)},
	} {
		if n.value < 0 {
			return fmt.Errorf("tcp: Options.%s is negative", n.name)
		}
	}
	if o.Sockets > maxSockets {
		return fmt.Errorf("tcp: Options.Sockets is %d, more than the limit of %d", o.Sockets, maxSockets)
	}
	if o.ClientFirst > 0 && o.ClientFirst < time.Second {
		return errors.New("tcp: Options.ClientFirst is less than a second")
	}
	return nil
}

func orDefault[T int | int64 | time.Duration](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}
