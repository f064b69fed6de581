package protocol

import "time"

// recovery decides what a Sender sends again after a loss.
//
// RFC 7440 §4 says that the sender goes back to the block after the acknowledged one and sends
// everything from there. Most receivers need that, because they drop blocks that arrive out of
// order. A receiver that keeps them, such as ours, needs only the missing block; sending the whole
// window again would waste most of a lossy link. The first loss shows which kind of peer it is: one
// block is sent alone, and if the answer acknowledges blocks beyond it, the peer keeps blocks. If
// there is no answer within the retransmission timeout, everything else is sent too.
//
// A round of recovery lasts until all blocks that were in flight when it began are acknowledged, so
// one loss begins one round. Within a round, each partial acknowledgement shows the next gap, and
// twice as many blocks are sent.
type recovery struct {
	active  bool
	holding bool // one block is sent to learn the peer's kind; nothing else is sent

	// deferred means that a round is due but not yet allowed. It begins at probeEnds; until then
	// nothing is sent, and holding is set too.
	deferred bool

	spared bool // the whole window was sent again before any block was acknowledged
	wholes int  // how many times everything from the gap on was sent again since the peer was last heard
	nudged bool // only the last block was sent again, to make the peer answer
	silent bool // the round began with a timeout, and the peer has sent nothing since

	// If trial is not 0, a trial is under way: that many blocks are sent from the gap on, followed
	// by block `ask`, which makes a receiver answer. The answer shows whether only one block was lost
	// or everything from the gap on, and how long the path takes for that many blocks. Meanwhile
	// the other blocks are held back.
	trial   int64
	gap     int64     // the first block of the trial
	asksNew bool      // block `ask` was not sent before
	ask     int64     // block still to send to make the receiver answer; 0 for none
	askedAt time.Time // when block `ask` was sent
	// rest is the block that a trial showed to be lost together with all after it, so all of them
	// are sent again; 0 for none.
	rest int64

	kind      peerKind
	misses    int       // signs in a row against the assumed kind
	began     time.Time // start of the latest round
	probeEnds time.Time

	end         int64 // the round ends when this block is acknowledged
	first, last int64 // blocks still to send again
	burst       int64 // how many blocks to send at a time to a peer that keeps blocks
	resent      int64 // in this round, all blocks from the gap up to this one were sent again
}

type peerKind uint8

const (
	kindUnknown peerKind = iota
	kindKeeps            // keeps blocks that arrive out of order
	kindDrops            // drops blocks that arrive out of order, and needs everything from the gap on again
)

// maxMisses is how many signs in a row change the assumed kind of a peer. One sign is not enough,
// because a packet lost on the way looks the same.
const maxMisses = 2

// mayBegin reports whether a round may begin. Only one may begin per round trip.
func (r *recovery) mayBegin(now time.Time, trip time.Duration) bool {
	return r.began.IsZero() || now.Sub(r.began) >= trip
}

// begin starts a round. Block acked is acknowledged, the block after it is missing, and all blocks
// up to high have been sent. A peer of unknown kind gets one block, and has the time `wait` to
// answer, which shows its kind.
func (r *recovery) begin(now time.Time, acked, high int64, wait time.Duration) {
	r.active, r.nudged, r.silent, r.began = true, false, false, now
	r.holding, r.deferred, r.trial, r.ask, r.rest = false, false, 0, 0, 0
	r.end, r.burst = high, 1
	r.resent = acked
	r.first, r.last = acked+1, high
	if r.kind == kindDrops {
		r.spare(acked)
		return
	}
	r.last = acked + 1
	if r.kind == kindUnknown && high > acked+1 {
		r.holding = true
		r.probeEnds = now.Add(wait)
	}
}

// try turns a round that has just begun into a trial of the given number of blocks. The block that
// makes the receiver answer is the next new block if that may be sent, because the receiver may
// already have the last old block.
func (r *recovery) try(now time.Time, blocks, next int64, mayNext bool, wait time.Duration) {
	r.trial, r.ask, r.gap, r.asksNew = blocks, r.end, r.first, mayNext
	if mayNext {
		r.ask, r.end = next, next
	}
	r.last = r.first + blocks - 1
	r.holding, r.probeEnds = true, now.Add(wait)
}

// tried takes the answer to a trial, an acknowledgement of k, and reports whether it shows that the
// end of the window was lost: all blocks of the trial arrived, and no block after them did. If so,
// the later blocks are sent again. Once round trips are measured, it ignores an answer that arrives
// in less than a round trip.
func (r *recovery) tried(now time.Time, k int64, trip time.Duration, measured bool) bool {
	if r.trial == 0 || r.ask > 0 || k != r.resent || k >= r.end {
		return false
	}
	early := now.Sub(r.askedAt) < trip
	if measured && early {
		return false
	}
	r.first, r.last = k+1, r.end
	r.trial, r.holding, r.rest = 0, false, k+1
	r.silent, r.nudged = false, false
	if !early {
		r.began = now
	}
	return true
}

// postpone schedules a round for the earliest time that mayBegin allows.
func (r *recovery) postpone(trip time.Duration) {
	r.holding, r.deferred = true, true
	r.first, r.last = 1, 0
	r.probeEnds = r.began.Add(trip)
}

// restart starts a round after a timeout, when it is unknown which blocks arrived. At first only
// the last block is sent again, which makes a receiver report which blocks it has. Often nothing is
// lost, and only the answer is late because the receiver waits for a disk. If there is still no
// answer, a peer that keeps blocks gets the first block, and any other peer gets everything.
func (r *recovery) restart(now time.Time, acked, high int64) {
	r.active, r.silent, r.began = true, true, now
	r.holding, r.deferred, r.trial, r.ask, r.rest = false, false, 0, 0, 0
	r.end, r.burst = high, 1
	r.resent = acked
	r.first, r.last = acked+1, high
	again := r.nudged
	r.nudged = !again && r.kind != kindDrops
	switch {
	case r.nudged:
		r.first = high
	case r.kind == kindKeeps:
		r.last = acked + 1
		r.miss(kindUnknown) // the peer should have answered
	default:
		r.spare(acked)
	}
}

// open starts a round that sends all blocks after acked up to high. Most of them were left out of
// the first window.
func (r *recovery) open(now time.Time, acked, high int64, trip time.Duration) {
	if r.mayBegin(now, trip) {
		r.began = now
	}
	r.active, r.nudged, r.silent = true, false, false
	r.holding, r.deferred, r.trial, r.ask = false, false, 0, 0
	r.end, r.burst, r.resent = high, 1, acked
	r.first, r.last, r.rest = acked+1, high, acked+1
}

// miss counts a sign against the assumed kind of peer. After maxMisses signs in a row, the assumed
// kind becomes `instead`.
func (r *recovery) miss(instead peerKind) {
	if r.misses++; r.misses >= maxMisses {
		r.kind, r.misses = instead, 0
	}
}

// spare limits how many times a whole window is sent again to a peer that is silent or has
// acknowledged no block yet, since its address and its packets may be forged. Beyond that limit,
// the peer gets only the first block, and the last one, which makes it acknowledge the first.
func (r *recovery) spare(acked int64) {
	if acked == 0 && r.spared || r.wholes >= maxWholes {
		r.last = acked + 1
		if r.end > r.last {
			r.ask = r.end
		}
		return
	}
	r.spared = r.spared || acked == 0
	r.wholes++
}

// maxWholes is how many times a whole window is sent again to a silent peer.
const maxWholes = 4

// advance takes an acknowledgement of block k, the highest so far. The result gap reports whether
// the block after k, if it was sent, is missing and needs a new round. The result run reports
// whether several blocks in a row are missing.
func (r *recovery) advance(now time.Time, k int64, trip time.Duration) (gap, run bool) {
	if !r.active {
		return true, false
	}
	if r.last < r.end || r.kind == kindDrops && r.resent < k && k < r.end {
		r.judge(k, now.Sub(r.began) >= trip)
		run = k == r.resent && k < r.end
	}
	r.holding, r.deferred, r.nudged, r.silent = false, false, false, false
	r.trial, r.ask = 0, 0
	if k >= r.end {
		r.active = false
		return false, false
	}
	if r.rest > 0 {
		return k != r.rest, run // a receiver answers at once when a gap that it reported is filled
	}
	if r.kind != kindKeeps {
		return true, run
	}
	if k+1 > r.resent {
		r.burst *= 2
		r.resent = k
		r.first, r.last = k+1, min(k+r.burst, r.end)
	}
	return false, run
}

// judge learns the peer's kind from an acknowledgement of k after only some blocks were sent again.
// The argument answer says that enough time has passed for the acknowledgement to answer these
// blocks. An earlier acknowledgement was already on its way, and proves nothing.
func (r *recovery) judge(k int64, answer bool) {
	switch {
	case k > r.resent && answer:
		r.kind, r.misses = kindKeeps, 0 // the peer has blocks that were not sent again
	case k == r.resent && k < r.end && r.kind == kindKeeps:
		// The peer has no block beyond k. All of them may have been lost on the way, but that does
		// not happen repeatedly.
		r.miss(kindUnknown)
	}
}

// unanswered ends a probe that got no answer. All other blocks are then sent again.
func (r *recovery) unanswered(now time.Time, acked, high int64) {
	r.miss(kindDrops)
	r.nudged = true // the probe served as the nudge
	r.restart(now, acked, high)
}

// due returns the blocks to send again. If first is above last, no block is due.
func (r *recovery) due(acked int64) (first, last int64) {
	if !r.active {
		return 1, 0
	}
	first, last = max(r.first, acked+1), r.last
	if first > last && r.ask > acked {
		return r.ask, r.ask
	}
	return first, last
}

// sent records that n blocks from first on were sent again.
func (r *recovery) sent(now time.Time, first, n int64) {
	if first == r.ask {
		r.ask, r.askedAt = 0, now
		return
	}
	r.first = first + n
	if first <= r.resent+1 { // otherwise only the last block was sent, as a nudge
		r.resent = max(r.resent, r.first-1)
	}
}
