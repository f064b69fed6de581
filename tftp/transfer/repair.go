package transfer

import "time"

// A Sender learns from acknowledgements what is lost, whether its timer was
// right, and what the path holds.

// advance takes an acknowledgement of k, beyond what was acknowledged.
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
		return // the peer has reported this gap, and answers once it is filled; the trial continues
	}
	s.suspect = suspect
	gap, run := s.recovery.advance(now, k, trip)
	if run {
		s.pacer.lostRun()
	}
	switch {
	case k == s.total:
		s.done = true
	case k+1 == s.next: // nothing on its way
	case gap && s.recovery.mayBegin(now, trip):
		if !silent && s.recovery.kind == kindDrops {
			s.pacer.hurried()
		}
		s.rewind(now)
	case gap && (silent || s.recovery.kind == kindUnknown && s.window > 1 && s.recovery.active):
		// It came sooner than any answer before, but all was silent until the
		// timeout. Some report a gap just once: it must not be passed over.
		s.recovery.postpone(trip)
		s.deadline = s.recovery.probeEnds
	default:
		s.deadline = now.Add(s.rto())
	}
}

// lostEnd returns how many blocks of the latest burst have come if an
// acknowledgement of k seems to say that its end is lost: the peer or we have
// waited for a timer, so no later block has shown the gap. It returns 0 if it
// does not, and if too few blocks can be missing for a trial.
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

// tried takes the answer to a trial that showed the end to be lost. Before a
// window is measured it may come sooner than the answer to an OACK did, as that
// may have been slow; or it may be an older one. It is no measure then.
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

// promptPart is the part of a timeout within which an answer to it is prompt.
const promptPart = 8

// timedOut learns from an acknowledgement of k, the first since a timeout, how long after
// it that came. One that comes sooner than an answer can was on its way before. One that
// comes soon, after a long wait, answers what the timeout sent: the timeout was right.
func (s *Sender) timedOut(k int64, after time.Duration) {
	if k < s.recovery.end {
		s.timer.eased() // something was lost
		return
	}
	early := after < s.timer.shortest()
	s.echo, s.hasty = k, early
	switch {
	case early && s.measured: // an OACK may take longer than all that follows
		s.timer.hasty()
	case after <= max(2*s.timer.trip(), s.rto()/promptPart):
		s.timer.eased()
	}
}

// echoSpan is how soon after an acknowledgement its echo comes. One that comes
// later may be a receiver's own timer, which says that the next block is lost.
const echoSpan = cautiousRTO / 2

// echoes reports whether a repeated ACK of k only answers what a timeout sent
// again needlessly. In lock-step, where a peer answers each DATA, it shows that
// the timeout was needless. In a window it is taken for an echo, rather than
// for the report of a gap, only if that is known before.
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

// pace passes to the pacer what an acknowledgement of k, beyond all before,
// says of the latest window.
func (s *Sender) pace(k int64) {
	switch {
	case s.recovery.silent && s.recovery.kind != kindKeeps: // that is what trials are for
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

// mayRewind reports whether a repeated ACK may begin a rewind: not while one
// is being answered, which takes a round trip, nor while the peer is tried.
func (s *Sender) mayRewind(now time.Time) bool {
	trip := s.timer.trip()
	if s.recovery.nudged {
		trip = s.timer.shortest() // nothing else is on its way
	}
	return !s.recovery.holding && s.recovery.mayBegin(now, trip)
}

// reportedGap takes a repeated ACK that says that the next block is missing.
func (s *Sender) reportedGap(now time.Time) {
	switch {
	case s.mayRewind(now):
		s.suspect = 0
		if s.recovery.kind == kindDrops {
			s.pacer.hurried()
		}
		s.rewind(now)
	case s.recovery.nudged && s.recovery.silent && !s.recovery.holding:
		// It came sooner than any answer before. But those answered whole
		// windows, or an OACK that made the peer open a file, and this one may
		// answer the one block that was sent after a timeout: passed over, it
		// would cost the next timeout, and a longer one.
		s.recovery.postpone(s.timer.shortest())
		s.deadline = s.recovery.probeEnds
	}
}

// rewind begins to send again from the first block not acknowledged.
func (s *Sender) rewind(now time.Time) {
	s.timed = 0 // Karn's rule: what is sent twice is not measured
	s.recovery.begin(now, s.acked, s.next-1, s.rto())
	s.deadline = now.Add(s.rto())
	if s.suspect > 0 && s.recovery.kind != kindDrops {
		s.recovery.try(now, trialOf(s.suspect), s.next, s.next <= min(s.acked+s.window, s.total), s.rto())
	}
	if s.recovery.holding {
		s.deadline = s.recovery.probeEnds
	}
}

// time begins to measure a round trip when the block just sent is one that
// the peer acknowledges at once: the last of a window, or of the file.
func (s *Sender) time(now time.Time) {
	last := s.next - 1
	if s.timed == 0 && !s.recovery.active && (last == s.acked+s.window || last == s.total) {
		s.timed, s.timedAt, s.timedRun = last, now, s.pacer.run
	}
}

// rto returns the retransmission timeout for the blocks on their way.
func (s *Sender) rto() time.Duration {
	switch {
	case s.window > 1 && !s.measured:
		return s.timer.rto(windowRTO)
	case s.window > 1 && s.recovery.kind == kindDrops, s.next > s.total:
		return s.timer.rto(cautiousRTO)
	}
	return s.timer.rto(0)
}

// proven takes the first acknowledgement of data, which ends the caution. It
// reports whether the peer has answered the end of a window that was sent in
// part: all behind block k goes out then.
func (s *Sender) proven(now time.Time, k int64) bool {
	flight := s.caution.flight
	s.caution = caution{}
	if flight == 0 || s.next <= flight+1 || k+1 >= s.next {
		return false
	}
	s.caution.skipped, s.caution.until = flight+1, s.next-2
	s.acked, s.moved = k, now
	s.timer.backoff = 0
	s.timed = 0 // what is measured is the next window
	s.recovery.open(now, k, s.next-1, s.timer.shortest())
	s.deadline = now.Add(s.rto())
	return true
}
