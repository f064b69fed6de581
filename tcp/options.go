package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"
)

// Options apply to listening sockets and their connections. The zero value suits most programs.
type Options struct {
	// Sockets is how many kernel sockets share the address (SO_REUSEPORT), each with its own queue.
	// 0 means one for each CPU that the process may use, at most 16. A unix address always has one
	// socket, and so has any address on a system where sockets cannot share one fairly.
	Sockets int

	// Backlog is how many connections may wait to be accepted, on each socket. 0 means as many as
	// the system allows (net.core.somaxconn).
	Backlog int

	// KeepAlive sets how the kernel probes silent peers. nil means that it probes them with the
	// defaults: the zero values of Idle, Interval and Count mean 15 s, 15 s and 9.
	KeepAlive *net.KeepAliveConfig

	// Nagle leaves Nagle's algorithm on (RFC 896): bytes that do not fill a packet wait while
	// earlier bytes are not acknowledged. Without Nagle, TCP_NODELAY is set.
	Nagle bool

	// FastOpen is how many pending connections may have sent data in their first packet
	// (TCP_FASTOPEN, RFC 7413); 0 means none. The data may arrive twice, so use this only for
	// requests that may be answered twice. If the system does not allow it, the option has no
	// effect.
	FastOpen int

	// ClientFirst makes the kernel hold a connection back until its client has sent something
	// (TCP_DEFER_ACCEPT). That saves much work, but only suits protocols in which clients send
	// first. A client that sends nothing for the given time is never accepted, and costs a few
	// hundred bytes in the kernel. 0 means that connections are accepted at once. The time is
	// rounded up to whole seconds.
	ClientFirst time.Duration

	// Congestion names the congestion control algorithm, such as "cubic" or "bbr". "" means the
	// system's default; for [FromFiles] it means the algorithm that the socket already has. If the
	// system refuses the name, the error is a [*CongestionError]. If [CanChooseCongestion] is
	// false, the system refuses all names.
	Congestion string

	// SendBuffer is the size of the kernel's send buffer: how many sent bytes it holds until they
	// are acknowledged. With 0, the kernel adapts the size as needed.
	SendBuffer int
}

const (
	defaultKeepAlive      = 15 * time.Second
	defaultKeepAliveCount = 9

	// maxSockets is the largest number of kernel sockets for one address.
	maxSockets = 64
)

// keepAlive returns the keep-alive settings, with the defaults filled in.
func (o Options) keepAlive() net.KeepAliveConfig {
	k := net.KeepAliveConfig{Enable: true}
	if o.KeepAlive != nil {
		k = *o.KeepAlive
	}
	k.Idle, k.Interval, k.Count = cmp.Or(k.Idle, defaultKeepAlive), cmp.Or(k.Interval, defaultKeepAlive), cmp.Or(k.Count, defaultKeepAliveCount)
	return k
}

// check returns an error for invalid settings.
func (o Options) check() error {
	keepAlive := o.keepAlive()
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Sockets", int64(o.Sockets)}, {"Backlog", int64(o.Backlog)}, {"FastOpen", int64(o.FastOpen)},
		{"ClientFirst", int64(o.ClientFirst)}, {"SendBuffer", int64(o.SendBuffer)},
		{"KeepAlive.Idle", int64(keepAlive.Idle)}, {"KeepAlive.Interval", int64(keepAlive.Interval)}, {"KeepAlive.Count", int64(keepAlive.Count)},
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
