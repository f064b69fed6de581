//go:build !linux || haul_portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// CanSharePort reports whether several sockets with [Config.ReusePort] may listen on one port, so
// that each receives from its own share of the peers. On systems other than Linux, one of the
// sockets would receive all datagrams, so this is not supported.
const CanSharePort = false

// control sets no options, because on the portable path all options can be set after the socket is
// open. Package net itself makes a socket for "udp6" accept only IPv6.
func control(string, syscall.RawConn, netip.Addr, Config) error { return nil }

// setOptionsBound sets no options, for the same reason as control. On Linux it sets the options of
// a socket that another program has bound.
func setOptionsBound(syscall.RawConn, Config) error { return nil }

func (c *Conn) start(config Config) error {
	c.in = receiver{socket: c.socket, pause: &c.pause}
	c.out.socket = c.socket
	setBuffer(c.socket.SetReadBuffer, config.buffer())
	setBuffer(c.socket.SetWriteBuffer, config.buffer())
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return err
	}
	c.most = Limits{Messages: 1, Segments: 1, Datagram: 1}
	e := raw.Control(func(fd uintptr) { c.most.Buffer, err = receiveBuffer(fd) })
	return errors.Join(e, err)
}

// duplicate returns a duplicate of the socket's descriptor.
func (c *Conn) duplicate() (*os.File, error) {
	if runtime.GOOS == "windows" {
		return nil, errors.ErrUnsupported
	}
	return c.socket.File()
}

// setBuffer asks for a buffer of size bytes. If the system refuses, it asks for half as much, and
// so on.
func setBuffer(set func(bytes int) error, size int) {
	for ; size > 0 && set(size) != nil; size /= 2 {
	}
}

// A receiver is the reading half of a Conn.
type receiver struct {
	socket *net.UDPConn
	pause  *pause
}

// glance is how long a call waits if it should not wait at all. With a deadline in the past,
// package net would return without looking at the socket.
const glance = 100 * time.Microsecond

func (r *receiver) receive(ms []Message, deadline time.Time) (int, error) {
	for {
		soon := time.Now().Add(glance)
		until := deadline
		if !deadline.IsZero() && deadline.Before(soon) {
			until = soon
		}
		if !r.pause.armed.IsZero() && r.pause.armed.Before(soon) {
			r.pause.arm(time.Time{})
		}
		if !r.pause.enter(until) {
			r.pause.arm(soon)
		}
		whole, err := r.one(&ms[0])
		woken := r.pause.leave()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if r.pause.expired(until) || woken {
				return 0, nil
			}
		case err != nil:
			return 0, err // the message is like "read udp ...: use of closed network connection"
		case whole:
			return 1, nil
		case woken:
			return 0, nil
		}
	}
}

// one receives a datagram into m. It returns whole = false if the datagram was longer than m.Data
// and was therefore cut off.
func (r *receiver) one(m *Message) (whole bool, err error) {
	n, _, flags, peer, err := r.socket.ReadMsgUDPAddrPort(m.Data[:cap(m.Data)], nil)
	if truncated(flags, err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.Data, m.Segment = m.Data[:n], 0
	m.Peer, m.Local = unmapped(peer), netip.Addr{}
	return true, nil
}

// A sender is the writing half of a Conn.
type sender struct {
	socket *net.UDPConn

	mu      sync.Mutex // guards the fields below, and the order of datagrams
	armed   time.Time  // the write deadline that is set on the socket
	stalled bool       // a send has failed for lack of room in the kernel, and none has succeeded since
}

// limit returns the largest number of datagrams that a message to be sent may hold.
func (s *sender) limit() int { return 1 }

func (s *sender) send(ms []Message) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setDeadline()
	for i := range ms {
		if err := s.one(&ms[i]); err != nil {
			return i, fmt.Errorf("send to %v: %w", ms[i].Peer, err)
		}
	}
	return len(ms), nil
}

// setDeadline bounds the first wait of the current call. It normally allows between a quarter and a
// half of maxStall, so that it can keep an old deadline in that range: setting a new deadline for
// each call costs too much.
func (s *sender) setDeadline() {
	bound := maxStall / 2
	if s.stalled {
		bound = glance
	}
	if left := time.Until(s.armed); left < bound/2 || left > bound {
		s.arm(bound)
	}
}

func (s *sender) arm(bound time.Duration) {
	s.armed = time.Now().Add(bound)
	s.socket.SetWriteDeadline(s.armed) // an error means that the socket is closed; the next send returns it
}

// one sends the datagrams in m.
func (s *sender) one(m *Message) error {
	for offset := 0; ; {
		p := m.next(offset, 1)
		if err := s.datagram(m.Data[offset:offset+p.length], m.Peer); err != nil {
			return err
		}
		if offset += p.length; offset >= len(m.Data) {
			return nil
		}
	}
}

func (s *sender) datagram(b []byte, peer netip.AddrPort) error {
	_, err := s.socket.WriteToUDPAddrPort(b, peer)
	if errors.Is(err, os.ErrDeadlineExceeded) && !s.stalled {
		// An old deadline may have passed before package net tried to send. Only a failure after a
		// new deadline shows that there is no room.
		s.arm(maxStall / 2)
		_, err = s.socket.WriteToUDPAddrPort(b, peer)
	}
	s.stalled = errors.Is(err, os.ErrDeadlineExceeded)
	return err
}
