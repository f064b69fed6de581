package transfer

import "time"

// recovery decides what a Sender sends again after a loss.
//
// RFC 7440 §4 has the sender go back to the block after the one acknowledged
// and send everything from there. Most receivers need just that, because they
// drop what comes out of order. A receiver that keeps it, as ours does, needs
// only the missing block; sending it the whole window again would waste most
// of a lossy link. Which kind the peer is shows at the first loss: one block
// goes out alone, and if the answer acknowledges blocks beyond it, the peer
// keeps. If no answer comes within the retransmission timeout, everything follows.
//
// A round of recovery lasts until all blocks that were on their way when it
// began are acknowledged, so one loss begins one round. Inside it each partial
// acknowledgement shows the next gap, and twice as many blocks go out.
type recovery struct {
	active  bool
	holding bool // one block is out to learn the peer's kind; nothing else goes

	// A round that is due, but not yet allowed, begins at probeEnds. Nothing
	// goes out meanwhile: holding is set too.
	deferred bool

	spared bool // the whole window went out again before any block was acknowledged
	wholes int  // how often everything from the gap went out again since the peer spoke last
	nudged bool // only the last block went out again, to make the peer speak
	silent bool // the round began by a timeout, and the peer has said nothing since

	// A trial is under way: a few blocks from the gap on, and block ask behind
	// them, which makes a receiver answer. The answer distinguishes a lost end
	// from a lost block, and shows how long the path takes for so many. The rest
	// is held meanwhile.
	trial   int64
	gap     int64     // its first block
	asksNew bool      // ask was not sent before
	ask     int64     // still to send; 0 for none
	askedAt time.Time // when it left
	rest    int64     // a trial showed that from this block on all is lost and goes out again; 0 for none

	kind      peerKind
	misses    int       // signs in a row against the kind assumed
	began     time.Time // of the latest round
	probeEnds time.Time

	end         int64 // the round ends when this block is acknowledged
	first, last int64 // blocks still to send again
	burst       int64 // how many at a time, for a peer that keeps
	resent      int64 // everything from the gap to here was sent again in this round
}

type peerKind uint8

const (
	kindUnknown peerKind = iota
	kindKeeps            // takes blocks out of order
	kindDrops            // needs everything again from the gap
)

// maxMisses is how many signs in a row change what a peer counts as, once its
// kind is guessed: one may be a packet lost on the way.
const maxMisses = 2

// mayBegin holds rounds to one per round trip.
func (r *recovery) mayBegin(now time.Time, trip time.Duration) bool {
	return r.began.IsZero() || now.Sub(r.began) >= trip
}

// begin starts a round: acked is acknowledged, the block after it is missing,
// and everything up to high has been sent. A peer of unknown kind gets one
// block, and the time given to show its kind.
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

// try turns a round that has just begun into a trial of so many blocks. The
// block that makes the receiver answer is the next new one, if that may be
// sent: a receiver may have the last one of the old.
func (r *recovery) try(now time.Time, blocks, next int64, mayNext bool, wait time.Duration) {
	r.trial, r.ask, r.gap, r.asksNew = blocks, r.end, r.first, mayNext
	if mayNext {
		r.ask, r.end = next, next
	}
	r.last = r.first + blocks - 1
	r.holding, r.probeEnds = true, now.Add(wait)
}

// tried takes the answer to a trial, an acknowledgement of k, and reports
// whether the end is lost: all that was tried came, and what follows did not.
// All of that goes out again then. Where trips are measured, an answer that
// comes sooner than one can says nothing.
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

// postpone has a round begin as soon as it may.
func (r *recovery) postpone(trip time.Duration) {
	r.holding, r.deferred = true, true
	r.first, r.last = 1, 0
	r.probeEnds = r.began.Add(trip)
}

// restart starts a round after a timeout, when nothing is known of what
// arrived. At first only the last block goes out again: it makes a receiver
// report what it has, and often only its answer is missing, which waits for a
// disk. If that brings nothing, a peer that keeps gets the first block, and any
// other gets everything.
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
		r.miss(kindUnknown) // it should have answered
	default:
		r.spare(acked)
	}
}

// open sends all behind block acked up to high, most of which was left out of
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

// miss counts a sign against the kind assumed, and after some in a row assumes
// another.
func (r *recovery) miss(instead peerKind) {
	if r.misses++; r.misses >= maxMisses {
		r.kind, r.misses = instead, 0
	}
}

// spare keeps a whole window from going out again and again to a peer that has
// acknowledged no block yet, or is silent: where its address is forged, its
// acknowledgements may be too. Such a peer gets the first block only, and the last,
// which makes it acknowledge the first.
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

// maxWholes is how often a whole window goes out again to a peer that is silent.
const maxWholes = 4

// advance takes an acknowledgement of block k, the highest so far, and reports
// whether the block after it, if sent, is missing and calls for a new round,
// and whether it is one of several in a row.
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

// judge learns the peer's kind from an acknowledgement of k after only some
// blocks were sent again. One that comes sooner than an answer can was on its
// way before, and says nothing.
func (r *recovery) judge(k int64, answer bool) {
	switch {
	case k > r.resent && answer:
		r.kind, r.misses = kindKeeps, 0 // it has what was not sent again
	case k == r.resent && k < r.end && r.kind == kindKeeps:
		// It has nothing beyond: all of that may be lost, but not time and again.
		r.miss(kindUnknown)
	}
}

// unanswered ends a probe that brought no answer: the rest follows.
func (r *recovery) unanswered(now time.Time, acked, high int64) {
	r.miss(kindDrops)
	r.nudged = true // in effect it was
	r.restart(now, acked, high)
}

// due returns the blocks to send again, none if first is above last.
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

// sent notes that n blocks from first have gone out again.
func (r *recovery) sent(now time.Time, first, n int64) {
	if first == r.ask {
		r.ask, r.askedAt = 0, now
		return
	}
	r.first = first + n
	if first <= r.resent+1 { // not a nudge with the last block
		r.resent = max(r.resent, r.first-1)
	}
}
