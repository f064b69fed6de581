//go:build linux && !haul_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// deadlines is the part of a socket with which a sender limits its waits for room to send.
type deadlines interface {
	SetWriteDeadline(time.Time) error
}

// A sender is the writing half of a Conn.
type sender struct {
	socket   deadlines
	raw      syscall.RawConn
	pause    *pause     // its wake makes Read return a refusal that sending has found
	refusals *refusals  // nil unless Config.Refusals is set
	local    netip.Addr // the local address of all datagrams; zero if it may differ for each
	v6       bool       // the socket is an IPv6 socket, which may have IPv4 peers as well
	segments atomic.Int32
	kernel   func(fd uintptr, headers []header) (int, syscall.Errno) // the system call: sendBatch, except in tests
	// ready is the method value s.try, stored so that a call does not allocate it.
	ready func(fd uintptr) bool

	mu          sync.Mutex // guards the fields below, and the order of datagrams
	out         batch
	pieces      []part // the pieces for the next call of the kernel
	count       int    // number of pieces that the kernel has sent
	errno       syscall.Errno
	hasDeadline bool // the current call has set the write deadline
	cuts        bool // the kernel may fragment datagrams, because allowFragments was called
	stalled     bool // a send has failed for lack of room in the kernel, and none has succeeded since
}

// A part is a piece of one of the messages of a call of send.
type part struct {
	piece
	message int // index of the message that the piece is part of
}

// A cursor is a position in the messages of a call of send.
type cursor struct {
	message int // index of the message
	offset  int // position in the message's Data, in bytes
	// apart is the index of a message that must be sent one datagram at a time, because the kernel
	// cannot cut it up; or -1.
	apart int
}

func (s *sender) send(ms []Message) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.clearDeadline()
	at := cursor{apart: -1}
	for at.message < len(ms) {
		s.plan(ms, at)
		s.fill(ms)
		err := s.push()
		if s.count > 0 {
			at.pass(s.pieces[s.count-1], ms)
		}
		if err != nil || s.errno != 0 && !s.retry(&at) {
			if err == nil {
				err = s.errno
			}
			return at.message, fmt.Errorf("send to %v: %w", ms[at.message].Peer, err)
		}
	}
	return at.message, nil
}

// plan lists the pieces from the cursor on, at most as many as one call of the kernel takes.
func (s *sender) plan(ms []Message, at cursor) {
	s.pieces = s.pieces[:0]
	for at.message < len(ms) && len(s.pieces) < maxBatch {
		segments := int(s.segments.Load())
		if at.message == at.apart {
			segments = 1
		}
		p := part{ms[at.message].next(at.offset, segments), at.message}
		s.pieces = append(s.pieces, p)
		at.pass(p, ms)
	}
}

// pass moves the cursor to the end of p.
func (at *cursor) pass(p part, ms []Message) {
	at.message, at.offset = p.message, p.offset+p.length
	if at.offset >= len(ms[p.message].Data) {
		at.message, at.offset = p.message+1, 0
	}
}

// fill describes the planned pieces in s.out, for the kernel.
func (s *sender) fill(ms []Message) {
	s.out.grow(len(s.pieces))
	for i, p := range s.pieces {
		m := &ms[p.message]
		s.out.setData(i, m.Data[p.offset:p.offset+p.length])
		s.out.setPeer(i, m.Peer, s.v6)
		local := m.Local
		if local == s.local {
			local = netip.Addr{}
		}
		s.out.setControl(i, local, p.segment, s.v6)
	}
}

// push sends at least one of the pieces, and waits for room if necessary. It sets s.count to the
// number of pieces sent, and sets s.errno if the first piece cannot be sent. If push returns an
// error, send gives up.
func (s *sender) push() error {
	s.count, s.errno = 0, 0
	err := s.raw.Write(s.ready)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), err == nil && s.errno == unix.EAGAIN:
		s.stalled = true
		return os.ErrDeadlineExceeded
	case s.count > 0:
		s.stalled = false
	}
	return err
}

// try passes the pieces to the kernel. It returns false if there is no room for any of them, and
// the sender should wait and then call try again.
func (s *sender) try(fd uintptr) bool {
	for again := false; ; again = true {
		s.count, s.errno = s.kernel(fd, s.out.headers[:len(s.pieces)])
		switch {
		case s.errno == unix.EINTR:
		case s.errno == unix.EAGAIN:
			return s.stalled || !s.setDeadline()
		case s.errno == unix.EMSGSIZE && again:
			return true // do not drain and try again: each such answer adds an error to the queue
		case s.errno != 0 && s.refusals.drain(fd):
			s.pause.wake()
		default:
			return true
		}
	}
}

// setDeadline limits all waits of the current call of send together to maxStall. It reports whether
// a deadline is set.
func (s *sender) setDeadline() bool {
	if !s.hasDeadline {
		s.hasDeadline = s.socket.SetWriteDeadline(time.Now().Add(maxStall)) == nil
	}
	return s.hasDeadline
}

// clearDeadline removes the deadline when send returns.
func (s *sender) clearDeadline() {
	if s.hasDeadline {
		s.hasDeadline = false
		s.socket.SetWriteDeadline(time.Time{}) // if the socket is closed, the next send reports it
	}
}

// allowFragments allows datagrams that are longer than the path's MTU. It reports whether they were
// forbidden before.
func (s *sender) allowFragments() bool {
	if s.cuts {
		return false
	}
	err := s.raw.Control(func(fd uintptr) {
		s.cuts = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_WANT) == nil
	})
	return err == nil && s.cuts
}

// retry handles the error of the first piece. It returns true if that piece should be sent again,
// in another way.
func (s *sender) retry(at *cursor) bool {
	if s.pieces[0].segment == 0 {
		return s.errno == unix.EMSGSIZE && s.allowFragments()
	}
	switch s.errno {
	case unix.EIO:
		// The device does not compute checksums, or IPsec prevents offloading (net/ipv4/udp.c,
		// udp_send_skb). That will not change, so the kernel is never asked to cut again.
		s.segments.Store(1)
	case unix.EINVAL, unix.EMSGSIZE:
		// A segment is larger than the MTU of this path (EINVAL before Linux 6.14). The MTU of other
		// paths may be larger, so only this message is affected.
		at.apart = at.message
	default:
		return false
	}
	return true
}
