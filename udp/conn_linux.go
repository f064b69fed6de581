//go:build linux && !haul_portable

package udp

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// start prepares the reading and the writing half of c. The socket is bound and its options are
// set.
func (c *Conn) start(config Config) error {
	raw, socket, err := c.handle(config)
	if err != nil {
		return err
	}
	var q *refusals
	if config.Refusals {
		q = new(refusals)
	}
	c.in = receiver{raw: raw, pause: &c.pause, refusals: q}
	c.in.ready = c.in.try
	c.out.socket, c.out.raw, c.out.kernel = socket, raw, sendBatch
	c.out.pause, c.out.refusals = &c.pause, q
	if at := c.local.Addr(); fixes(at) {
		c.in.local, c.out.local = at, at
	}
	c.out.ready = c.out.try
	c.most = Limits{Messages: maxBatch, Segments: 1, Datagram: 1}
	if e := raw.Control(func(fd uintptr) { err = c.inspect(int(fd), config) }); e != nil {
		err = e
	}
	if err != nil {
		_ = c.closer.Close() // an error does not matter, because the socket was never used
	}
	c.out.segments.Store(int32(c.most.Segments))
	return err
}

// handle returns the socket for system calls, and an interface to set the deadline for waits to
// send. With Config.Busy both are a new ownPoll.
func (c *Conn) handle(config Config) (syscall.RawConn, deadlines, error) {
	if !config.Busy {
		raw, err := c.socket.SyscallConn()
		return raw, c.socket, err
	}
	p, err := takeOver(c.socket)
	if err != nil {
		return nil, nil, err
	}
	c.socket, c.closer, c.pause.socket = nil, p, p
	return p, p, nil
}

// duplicate returns a duplicate of the socket's descriptor, whether a net.UDPConn or an ownPoll
// owns it.
func (c *Conn) duplicate() (f *os.File, err error) {
	e := c.in.raw.Control(func(fd uintptr) {
		var n int
		if n, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			f = os.NewFile(uintptr(n), "udp:"+c.local.String())
		}
	})
	return f, errors.Join(e, err)
}

// inspect determines which offloads the socket supports, its address family and the size of its
// receive buffer.
func (c *Conn) inspect(fd int, config Config) error {
	if !config.Plain && cuts(fd) {
		c.most.Segments = maxSegments
	}
	if !config.Plain && glues(fd) {
		c.most.Datagram = maxGlued
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	c.out.v6 = domain == unix.AF_INET6
	c.most.Buffer, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return err
}

// maxGlued is the largest number of bytes that the kernel glues together, because a packet's length
// is a 16-bit number (net/ipv4/udp_offload.c, udp_gro_receive_segment).
const maxGlued = 65535

// limit returns the largest number of datagrams that a message to be sent may currently hold.
func (s *sender) limit() int { return int(s.segments.Load()) }
