package protocol

import "time"

// From acknowledgements, a Sender learns which blocks are lost, whether its timer was right, and
// how many blocks the path holds. This file contains that part of the Sender.

// advance handles an acknowledgement of block k, which is higher than all earlier ones.
func (s *Sender) advance(now time.Time, k int64) {
	s.progress.moved(now, k-s.acked, s.block)
	if k < s.total && s.stalled(now) || s.proven(now, k) {
		return
	}
	suspect := int64(0)
	if s.window > 1 {
		s.pace(k)
		suspect = s.lostEnd(now, k)
	}
	if s.timed != 0 && k >= s.timed {
		s.pacer.drained(now.Sub(s.timedAt)-s.timer.shortest(), s.timedRun)
		s.timer.sample(now.Sub(s.timedAt))
		s.measured = true
		s.timed = 0
	}
	silent := s.recovery.silent
	s.acked, s.moved = k, now
	trip := s.timer.shortest()
	s.echo, s.hasty = 0, false
	if silent {
		s.timedOut(k, now.Sub(s.recovery.began))
	}
	s.deadline = time.Time{}
	if s.recovery.tried(now, k, trip, s.measured) {
		s.tried(now)
		return
	}
	if s.recovery.trial > 0 && k == s.recovery.gap {
		s.deadline = s.recovery.probeEnds
		return // the peer reported this gap and answers once it is filled; the trial continues
	}
	s.suspect = suspect
	gap, run := s.recovery.advance(now, k, trip)
	if run {
		s.pacer.lostRun()
	}
	switch {
	case k == s.total:
		s.done = true
	case k+1 == s.next: // no block is in flight
	case gap && s.recovery.mayBegin(now, trip):
		if !silent && s.recovery.kind == kindDrops {
			s.pacer.hurried()
		}
		s.rewind(now)
	case gap && (silent || s.recovery.kind == kindUnknown && s.window > 1 && s.recovery.active):
		// The ACK arrived sooner than any earlier answer, so it may answer older packets. But the
		// peer was silent until the timeout. Some peers report a gap only once, so this report must
		// not be ignored.
		s.recovery.postpone(trip)
		s.deadline = s.recovery.probeEnds
	default:
		s.deadline = now.Add(s.rto())
	}
}

// lostEnd returns how many blocks of the latest burst arrived, if an acknowledgement of k suggests
// that the end of the burst is lost. The loss is suspected if the peer or this side has waited for
// a timer, because then no later block has revealed the gap. Otherwise, or if too few blocks can be
// missing for a trial, lostEnd returns 0.
func (s *Sender) lostEnd(now time.Time, k int64) int64 {
	if !s.recovery.silent && now.Sub(s.pacer.latest) < max(2*s.timer.trip(), cautiousRTO) {
		return 0
	}
	arrived := max(1, s.pacer.arrived(k))
	if s.next-1-k <= trialOf(arrived)+reorderSpan {
		return 0
	}
	return arrived
}

// tried handles the answer to a trial which showed that the end is lost. Before a window is
// measured, this answer may take less time than a slow answer to an OACK did, or it may answer
// older packets. In both cases its time is not a measurement.
func (s *Sender) tried(now time.Time) {
	took, trip := now.Sub(s.recovery.askedAt), s.timer.shortest()
	known := s.suspect >= minRun && s.recovery.asksNew
	switch {
	case took < trip && known:
		s.pacer.lower(s.suspect)
	case took < trip:
	case known:
		s.pacer.overflowed(s.suspect, took, trip, trialOf(s.suspect)+1)
		fallthrough
	default:
		s.timer.sample(took)
		s.measured = true
	}
	s.deadline = now.Add(s.rto())
}

// promptPart says when an answer after a timeout is prompt: within 1/promptPart of the length of
// the timeout.
const promptPart = 8

// timedOut decides whether a timeout was right. It handles an acknowledgement of k, the first one
// since the timeout; the argument after is the time since the timeout. An acknowledgement that
// arrives within less than a round trip was already on its way. An acknowledgement that arrives
// soon after a long wait answers the repeated packets, so the timeout was right.
func (s *Sender) timedOut(k int64, after time.Duration) {
	if k < s.recovery.end {
		s.timer.eased() // something was lost
		return
	}
	early := after < s.timer.shortest()
	s.echo, s.hasty = k, early
	switch {
	case early && s.measured: // an OACK may take longer than all later answers
		s.timer.hasty()
	case after <= max(2*s.timer.trip(), s.rto()/promptPart):
		s.timer.eased()
	}
}

// An echo is a repeated ACK that only answers blocks which a timeout sent again needlessly. It
// arrives within echoSpan after the first ACK. A later repeat may come from the receiver's own
// timer, and then means that the next block is lost.
const echoSpan = cautiousRTO / 2

// echoes reports whether a repeated ACK of k is an echo. In lock-step, where a peer answers each
// DATA, the echo itself shows that the timeout was needless. With a window, a repeated ACK may also
// report a gap, so it counts as an echo only if the timeout is already known to have been needless.
func (s *Sender) echoes(now time.Time, k int64) bool {
	if k == 0 || k != s.echo || now.Sub(s.moved) >= echoSpan || s.window > 1 && !s.hasty {
		return false
	}
	if !s.hasty {
		s.timer.hasty()
	}
	s.echo = 0
	return true
}

// pace informs the pacer which blocks of the latest window arrived, as shown by an acknowledgement
// of k, the highest so far.
func (s *Sender) pace(k int64) {
	switch {
	case s.recovery.silent && s.recovery.kind != kindKeeps: // peers that keep blocks are handled by trials
		last := min(k, s.recovery.end-1)
		arrived := s.pacer.arrived(last)
		if s.window <= minRun {
			arrived = last - s.acked
		}
		s.pacer.lostTail(arrived, s.window, s.timer.trip())
	case s.recovery.kind == kindKeeps || k >= s.acked+s.window:
		s.pacer.came(k-s.acked, s.window)
	}
}

// mayRewind reports whether a repeated ACK may begin a rewind. It may not within a round trip after
// an earlier rewind, nor while the peer is being probed.
func (s *Sender) mayRewind(now time.Time) bool {
	trip := s.timer.trip()
	if s.recovery.nudged {
		trip = s.timer.shortest() // nothing else is in flight
	}
	return !s.recovery.holding && s.recovery.mayBegin(now, trip)
}

// reportedGap handles a repeated ACK, which says that the next block is missing.
func (s *Sender) reportedGap(now time.Time) {
	switch {
	case s.mayRewind(now):
		s.suspect = 0
		if s.recovery.kind == kindDrops {
			s.pacer.hurried()
		}
		s.rewind(now)
	case s.recovery.nudged && s.recovery.silent && !s.recovery.holding:
		// The ACK arrived sooner than any earlier answer. But earlier answers were to whole
		// windows, or to an OACK that made the peer open a file, whereas this one may be to the
		// single block that was sent after a timeout. Ignoring it would cost another, longer
		// timeout.
		s.recovery.postpone(s.timer.shortest())
		s.deadline = s.recovery.probeEnds
	}
}

// rewind starts sending again from the first block that is not acknowledged.
func (s *Sender) rewind(now time.Time) {
	s.timed = 0 // Karn's rule: blocks that are sent twice are not measured
	s.recovery.begin(now, s.acked, s.next-1, s.rto())
	s.deadline = now.Add(s.rto())
	if s.suspect > 0 && s.recovery.kind != kindDrops {
		s.recovery.try(now, trialOf(s.suspect), s.next, s.next <= min(s.acked+s.window, s.total), s.rto())
	}
	if s.recovery.holding {
		s.deadline = s.recovery.probeEnds
	}
}

// time begins to measure a round trip if the peer acknowledges the latest block at once, because it
// is the last one of a window or of the file.
func (s *Sender) time(now time.Time) {
	last := s.next - 1
	if s.timed == 0 && !s.recovery.active && (last == s.acked+s.window || last == s.total) {
		s.timed, s.timedAt, s.timedRun = last, now, s.pacer.run
	}
}

// rto returns the retransmission timeout for the blocks in flight.
func (s *Sender) rto() time.Duration {
	switch {
	case s.window > 1 && !s.measured:
		return s.timer.rto(windowRTO)
	case s.window > 1 && s.recovery.kind == kindDrops, s.next > s.total:
		return s.timer.rto(cautiousRTO)
	}
	return s.timer.rto(0)
}

// proven handles the first acknowledgement of data, which shows that the peer is genuine and ends
// the caution. It reports whether the peer has answered the end of a window that was only partly
// sent. In that case all blocks after k are sent.
func (s *Sender) proven(now time.Time, k int64) bool {
	flight := s.caution.flight
	s.caution = caution{}
	if flight == 0 || s.next <= flight+1 || k+1 >= s.next {
		return false
	}
	s.caution.skipped, s.caution.until = flight+1, s.next-2
	s.acked, s.moved = k, now
	s.timer.backoff = 0
	s.timed = 0 // the next window is measured
	s.recovery.open(now, k, s.next-1, s.timer.shortest())
	s.deadline = now.Add(s.rto())
	return true
}
