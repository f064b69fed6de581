package tftp

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// maxBehind is how long an expired timer waits for the packets that are queued in the socket, one
// of which may be the answer.
const maxBehind = 100 * time.Millisecond

// run runs the loop. It returns when the shard was stopped and has finished, or when its socket
// fails.
func (sh *shard) run() error {
	for {
		n, err := sh.conn.Read(sh.in, sh.timers.next())
		if err != nil {
			sh.haltAll(time.Now())
			return fmt.Errorf("tftp: receive on %v: %w", sh.conn.LocalAddr(), err)
		}
		began := time.Now()
		over, crashed := sh.safeTurn(began, n)
		for crashed { // continue with the rest of the turn after a panic
			over, crashed = sh.safeTurn(time.Now(), 0)
		}
		sh.occupied.turn(sh.began, began, time.Now())
		if over {
			return nil
		}
	}
}

// safeTurn takes a turn. A panic in it, because of a bug in this package or in the store's File,
// ends only the transfer that caused it.
func (sh *shard) safeTurn(now time.Time, n int) (over, crashed bool) {
	defer func() {
		s := sh.current
		if s == nil {
			return
		}
		if p := recover(); p != nil {
			sh.current = nil
			sh.crash(now, s, p)
			crashed = true
		}
	}()
	return sh.turn(now, n), false
}

// crash ends a transfer that has caused the panic p.
func (sh *shard) crash(now time.Time, s *session, p any) {
	err := fileio.Crashed(p)
	sh.server.crashes.Add(1)
	code, msg := errorPacketFor(err)
	sh.out.AddError(s.peer, s.local, code, msg)
	s.end(now, err)
}

// turn handles the first n messages of sh.in and everything else that is due, and sends the
// resulting packets. It reports whether the shard was stopped and has finished.
func (sh *shard) turn(now time.Time, n int) (over bool) {
	sh.turns.Add(1)
	for i := range sh.in[:n] {
		sh.receive(now, &sh.in[i])
	}
	sh.takeInbox(now)
	due := sh.drainedUntil(now, n)
	for s := sh.timers.pop(due); s != nil; s = sh.timers.pop(due) {
		sh.current = s
		s.expire(now)
		sh.schedule(s)
	}
	for sh.advanced < len(sh.scheduled) {
		s := sh.scheduled[sh.advanced]
		sh.advanced++
		s.scheduled = false
		sh.current = s
		s.advance(now)
	}
	sh.current = nil
	sh.scheduled, sh.advanced = sh.scheduled[:0], 0
	sh.flush()
	sh.count.flush(&sh.out.Counts, sh.server.config.Hooks.TurnedAway)
	switch sh.ending {
	case serving:
		return false
	case retiring:
		return len(sh.sessions) == 0 && sh.jobs == 0
	}
	return sh.busy == 0 && sh.cleared(now)
}

// drainedUntil returns the time up to which all received packets were read, if a read at now
// returned n messages. A deadline counts only when all packets that arrived before it are handled.
// Otherwise a busy loop would repeat blocks that queued packets already acknowledge.
func (sh *shard) drainedUntil(now time.Time, n int) time.Time {
	if n < len(sh.in) {
		sh.drained = now
	} else if late := now.Add(-maxBehind); sh.drained.Before(late) {
		sh.drained = late
	}
	return sh.drained
}

// schedule marks a session to be advanced at the end of the turn.
func (sh *shard) schedule(s *session) {
	if !s.scheduled {
		s.scheduled = true
		sh.scheduled = append(sh.scheduled, s)
	}
}

// receive passes a message to the session of its sender, or handles the request in it.
func (sh *shard) receive(now time.Time, m *udp.Message) {
	s := sh.sessions[m.Peer]
	if s == nil && !sh.takesRequests {
		sh.stray(now, m)
		return
	}
	for b := range m.Datagrams() {
		sh.count.received(1, len(b))
		switch {
		case sh.takesRequests && isRequest(b):
			sh.receiveRequest(now, m, b)
			s = sh.sessions[m.Peer]
		case s != nil:
			sh.current = s
			s.handle(now, b)
		default:
			sh.answerUnknown(now, m, b)
		}
	}
	if s != nil {
		sh.schedule(s)
	}
}

// stray counts and answers a message from a peer that has no session.
func (sh *shard) stray(now time.Time, m *udp.Message) {
	for b := range m.Datagrams() {
		sh.count.received(1, len(b))
		sh.answerUnknown(now, m, b)
	}
}

// answerUnknown answers a datagram from a peer that has no session with an ERROR (RFC 1350 §4),
// because the transfer may have ended here without the peer knowing. It never answers an ERROR,
// because otherwise two hosts could answer each other forever. It does not answer a peer whose next
// request is on its way to this shard, or a late duplicate of a last ACK: the peer would take the
// ERROR for the answer to its next request.
func (sh *shard) answerUnknown(now time.Time, m *udp.Message, b []byte) {
	sh.count.strays++
	op := transfer.OpcodeOf(b)
	switch {
	case op == transfer.ErrorPacket, op == 0:
		return
	case op == transfer.Acknowledgement && sh.recent.has(now, m.Peer):
		return
	}
	// The shared routes are searched only for datagrams that would be answered.
	if sh.errors.Allow(now, maxErrors) && (sh.takesRequests || !sh.routes.awaits(m.Peer)) {
		sh.out.AddError(m.Peer, m.Local, transfer.UnknownID, "no such transfer here")
	}
}

// takeInbox handles everything that other goroutines have put into the inbox.
func (sh *shard) takeInbox(now time.Time) {
	sh.mu.Lock()
	sh.inbox, sh.inTurn = inbox{
		requests: sh.inTurn.requests[:0],
		worked:   sh.inTurn.worked[:0],
		ending:   sh.inbox.ending,
	}, sh.inbox
	sh.queued.Store(0)
	sh.mu.Unlock()

	for _, s := range sh.inTurn.worked {
		sh.jobs--
		sh.schedule(s)
		sh.current = s
		s.jobDone(now)
	}
	sh.current = nil
	for _, q := range sh.inTurn.requests {
		sh.accept(now, q)
		sh.routes.arrived(q.Peer, sh.sessions[q.Peer] != nil)
	}
	clear(sh.inTurn.requests)
	clear(sh.inTurn.worked)
	was := sh.ending
	sh.ending = sh.inTurn.ending
	if was < halting && sh.ending >= halting {
		sh.haltAll(now)
	}
}

// haltAll ends all transfers at once.
func (sh *shard) haltAll(now time.Time) {
	for _, s := range sh.sessions {
		if s.state != dallying {
			s.abort(now, errStopping)
		}
		if s.state != ended {
			s.advance(now) // sends the ERROR packet
		}
		s.end(now, errStopping)
	}
	sh.flush()
}

// flush sends the batch, and then reports the transfers that have ended, so that their log lines
// follow their last packets.
func (sh *shard) flush() {
	sh.out.Flush()
	for i, t := range sh.endings {
		sh.endings[i] = nil
		sh.server.reportEnd(t)
	}
	sh.endings = sh.endings[:0]
}

// cleared ends the sessions that only answer repeats, and reports whether all jobs are done, or the
// loop need not wait for them.
func (sh *shard) cleared(now time.Time) bool {
	for _, s := range sh.sessions {
		s.end(now, nil)
	}
	return sh.jobs == 0 || sh.ending == abandoning
}
