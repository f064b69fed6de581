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

// deadlines sets the deadline for the waits for room to send.
type deadlines interface {
	SetWriteDeadline(time.Time) error
}

// A sender is the writing half of a Conn.
type sender struct {
	socket   deadlines
	raw      syscall.RawConn
	pause    *pause     // woken when there is a refusal
	refusals *refusals  // nil unless Config.Refusals is set
	local    netip.Addr // the local address of all datagrams; zero if it varies
	v6       bool       // it is an IPv6 socket, perhaps for IPv4 peers as well
	segments atomic.Int32
	kernel   func(fd uintptr, headers []header) (int, syscall.Errno) // sendBatch, except in tests
	ready    func(fd uintptr) bool                                   // s.try as a function, stored so that a call allocates nothing

	mu          sync.Mutex // guards the fields below, and the order of datagrams
	out         batch
	pieces      []part // the pieces that the kernel must send
	count       int    // from the kernel: number of pieces sent
	errno       syscall.Errno
	hasDeadline bool // the current call has set the write deadline
	cuts        bool // the kernel may fragment datagrams
	stalled     bool // the kernel had no room for maxStall, and has accepted nothing since
}

// A part is a piece of one of several messages.
type part struct {
	piece
	message int // index of the message
}

// A cursor is a position in a list of messages.
type cursor struct {
	message int // index of the message
	offset  int // position in the message's Data, in bytes
	apart   int // index of a message that the kernel cannot cut up, or -1
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

// plan lists the pieces from a cursor on, as many as one call of the kernel takes.
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

// pass moves the cursor past p.
func (at *cursor) pass(p part, ms []Message) {
	at.message, at.offset = p.message, p.offset+p.length
	if at.offset >= len(ms[p.message].Data) {
		at.message, at.offset = p.message+1, 0
	}
}

// fill stores the planned pieces in the structures that the kernel reads.
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

// push sends some or all of the pieces, and waits for room if necessary. It sets s.count, and
// s.errno if no piece was sent. If it returns an error, the call of send ends.
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

// try passes the pieces to the kernel. It reports false if there is no room for any piece and
// waiting makes sense.
func (s *sender) try(fd uintptr) bool {
	for again := false; ; again = true {
		s.count, s.errno = s.kernel(fd, s.out.headers[:len(s.pieces)])
		switch {
		case s.errno == unix.EINTR:
		case s.errno == unix.EAGAIN:
			return s.stalled || !s.setDeadline()
		case s.errno == unix.EMSGSIZE && again:
			return true // do not drain and try again, because the kernel queues an error with each such answer
		case s.errno != 0 && s.refusals.drain(fd):
			s.pause.wake()
		default:
			return true
		}
	}
}

// setDeadline bounds the next wait, together with the other waits of this call.
func (s *sender) setDeadline() bool {
	if !s.hasDeadline {
		s.hasDeadline = s.socket.SetWriteDeadline(time.Now().Add(maxStall)) == nil
	}
	return s.hasDeadline
}

// clearDeadline removes the deadline at the end of a call.
func (s *sender) clearDeadline() {
	if s.hasDeadline {
		s.hasDeadline = false
		s.socket.SetWriteDeadline(time.Time{}) // if the socket is closed, the next send reports it
	}
}

// allowFragments permits datagrams longer than the path's MTU. It reports whether they were
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

// retry decides whether the first piece, which could not be sent, should be sent in another way.
func (s *sender) retry(at *cursor) bool {
	if s.pieces[0].segment == 0 {
		return s.errno == unix.EMSGSIZE && s.allowFragments()
	}
	switch s.errno {
	case unix.EIO:
		// The device computes no checksums, or IPsec prevents offloading (net/ipv4/udp.c,
		// udp_send_skb). That will not change.
		s.segments.Store(1)
	case unix.EINVAL, unix.EMSGSIZE:
		// A segment does not fit the MTU of this path (EINVAL before Linux 6.14). Other paths may
		// differ.
		at.apart = at.message
	default:
		return false
	}
	return true
}
