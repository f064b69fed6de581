//go:build linux && !haul_portable

package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A receiver is the reading half of a Conn.
type receiver struct {
	raw      syscall.RawConn
	pause    *pause
	refusals *refusals             // nil unless Config.Refusals is set
	local    netip.Addr            // the local address of all datagrams; zero if it may differ for each
	ready    func(fd uintptr) bool // the method value r.try, stored so that a call does not allocate it

	in       batch
	wanted   int       // the largest number of messages that the current call may receive
	deadline time.Time // the deadline of the current call
	count    int       // number of messages that the kernel has returned
	errno    syscall.Errno
}

func (r *receiver) receive(ms []Message, deadline time.Time) (int, error) {
	r.prepare(ms[:min(len(ms), maxBatch)])
	r.deadline = deadline
	for {
		r.count, r.errno = 0, 0
		err := r.raw.Read(r.ready)
		woken := r.pause.leave()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if r.pause.expired(deadline) || woken {
				// A datagram may have arrived just as the deadline passed. Or an old deadline had
				// already passed, and package net did not look at the socket at all. So look once
				// more, without waiting.
				r.deadline = longAgo
			}
		case err != nil:
			return 0, err // the message is complete, for example "raw-read udp ...: use of closed network connection"
		case r.count > 0:
			if n := r.collect(ms); n > 0 || woken {
				return n, nil
			}
		case r.errno == unix.EAGAIN:
			return 0, r.refusals.take()
		default:
			return 0, fmt.Errorf("receive: %w", r.errno)
		}
	}
}

// prepare passes the Data of all messages in ms to the kernel, to receive into.
func (r *receiver) prepare(ms []Message) {
	r.wanted = len(ms)
	r.in.grow(len(ms))
	for i := range ms {
		r.in.setData(i, ms[i].Data[:cap(ms[i].Data)])
	}
}

// maxDrained bounds how many times one receive call is repeated because of ICMP errors, since more
// of them may arrive at any time.
const maxDrained = 16

// try asks the kernel for messages. It returns false if the reader should wait and then call try
// again.
//
// Datagrams are returned before refusals, even if they arrived later. The reason is a peer that
// sends its last packet and closes its port while a repeated packet of ours is on its way. The
// peer's host then refuses the repeated packet, and that refusal must not hide the last packet.
func (r *receiver) try(fd uintptr) bool {
	for drained := 0; ; {
		r.count, r.errno = receiveBatch(fd, r.in.headers[:r.wanted])
		switch {
		case r.errno == unix.EINTR:
		case r.errno == unix.EAGAIN:
			passed := !r.deadline.IsZero() && time.Until(r.deadline) <= 0
			return passed || r.refusals.known() || !r.pause.enter(r.deadline)
		case r.errno != 0 && drained < maxDrained && r.refusals.drain(fd):
			drained++
		default:
			return true
		}
	}
}

// collect moves the received messages to the front of ms and describes them, but leaves out
// messages that were cut off. It returns their number.
func (r *receiver) collect(ms []Message) int {
	n := 0
	for i := range r.count {
		if r.in.headers[i].Flags&unix.MSG_TRUNC == 0 {
			ms[n].Data, ms[i].Data = ms[i].Data, ms[n].Data
			r.describe(&ms[n], i)
			n++
		}
		r.in.reset(i)
	}
	return n
}

// describe sets the fields of m, whose Data holds the received message i.
func (r *receiver) describe(m *Message, i int) {
	h := &r.in.headers[i]
	m.Data = m.Data[:h.length]
	m.Peer = r.in.peer(i)
	m.Local, m.Segment, m.Broadcast = parseControl(r.in.controls[i][:h.Controllen])
	if !m.Local.IsValid() {
		m.Local = r.local
	}
	if m.Segment >= len(m.Data) {
		m.Segment = 0
	}
}
