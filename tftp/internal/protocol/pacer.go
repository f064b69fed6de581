package protocol

import "time"

const (
	// A window that loses its end adds strike, and a window that does not subtracts one. At
	// maxStrikes, windows are sent in bursts, or in smaller bursts: any last packet may be lost by
	// chance, but not that of every third window. A loss that a trial has already confirmed is not
	// counted.
	strike     = 2
	maxStrikes = 3 * strike

	// firstPause is the time assumed for the path to drain all that it holds while nothing is known
	// about it. It doubles, up to a round trip and maxDrain, while ends are still lost, and halves
	// again after shortRun windows arrive complete.
	firstPause = time.Millisecond
	maxDrain   = 64 * time.Millisecond
	shortRun   = 4

	// longPause is the longest pause between bursts if smaller bursts can avoid a longer one: some
	// peers take a pause of 10 ms for a loss.
	longPause = 5 * time.Millisecond

	// slack is the divisor for the part that is added to a block's time on the path. If blocks
	// arrived faster than they leave, a queue would eventually fill.
	slack = 16

	// minRun is how many blocks must be sent at once for a measurement of the path.
	minRun = 4

	// trust is the number of windows in a row that must arrive complete before a larger burst is
	// tried. It doubles each time that burst was too large.
	minTrust = 16
	maxTrust = 1 << 16
)

// A pacer sends windows in bursts if the path has no room for a whole window. The ring of a small
// network card or the queue of a switch may hold only a few packets, so the end of each window is
// lost. The receiver cannot report that, since nothing follows, so each such window would cost a
// timeout.
//
// It models the path as one queue that holds a number of blocks and needs a fixed time for each.
type pacer struct {
	holds int64         // most blocks at once that arrived; 0 for no bound
	held  int64         // the previous value of holds while a larger one is tried; 0 otherwise
	each  time.Duration // time that the path needs for a block; 0 while unknown
	guess bool          // each is no more than a guess
	empty time.Time     // when the queue is empty if nothing more is sent

	latest  time.Time // when a block was last sent
	run     int64     // how many blocks were sent at that time
	first   int64     // first and last block of those that are consecutive
	last    int64
	from    int64 // the latest consecutive blocks, from and to, that are enough for a measurement
	to      int64
	strikes int
	best    int64 // most blocks that arrived of a window that added strikes
	passed  int64 // blocks that arrived since a window was counted
	clean   int   // windows in a row whose ends were not lost
	trust   int   // how many of these are needed to try more
	wary    bool  // the measured value of each was too short
}

// arrived returns how many blocks of the latest burst arrived, if k is the highest one that did and
// the burst has more; 0 if k is not of that burst.
func (p *pacer) arrived(k int64) int64 {
	if k < p.from || k >= p.to {
		return 0
	}
	return k - p.from + 1
}

// room returns how many of n blocks may be sent now: as many as the queue has room for, but 0
// instead of a few.
func (p *pacer) room(now time.Time, n int64) int64 {
	if p.holds == 0 || !p.empty.After(now) {
		return p.most(n)
	}
	backlog := int64((p.empty.Sub(now) + p.each - 1) / p.each)
	if free := p.holds - backlog; free >= p.burst(n) {
		return min(n, free)
	}
	return 0
}

func (p *pacer) most(n int64) int64 {
	if p.holds == 0 {
		return n
	}
	return min(n, p.holds)
}

// burst returns how much room is needed before it is worth sending some of n blocks. If each is
// only a guess, the queue must be empty.
func (p *pacer) burst(n int64) int64 {
	if p.guess {
		return p.holds
	}
	return min(n, max(1, min(p.holds/2, int64(longPause/p.each))))
}

// resumes returns when there is room for such a burst.
func (p *pacer) resumes(n int64) time.Time {
	return p.empty.Add(-time.Duration(p.holds-p.burst(n)) * p.each)
}

// took records that n blocks were sent, beginning with first.
func (p *pacer) took(now time.Time, first, n int64) {
	if !now.Equal(p.latest) {
		p.run, p.latest = 0, now
	}
	if p.run == 0 || first != p.last+1 {
		p.first = first
	}
	p.run, p.last = p.run+n, first+n-1
	if p.last-p.first+1 >= minRun {
		p.from, p.to = p.first, p.last
	}
	if p.holds > 0 {
		if p.empty.Before(now) {
			p.empty = now
		}
		p.empty = p.empty.Add(time.Duration(n) * p.each)
	}
}

// drained records that the path was busy for d with at least run blocks.
func (p *pacer) drained(d time.Duration, run int64) {
	if p.wary || run < minRun || d <= 0 {
		return
	}
	each := slacken(d / time.Duration(run-1)) // d includes the trip of one of them
	if p.each == 0 || p.guess || each < p.each {
		p.each, p.guess = each, false
	}
}

func slacken(each time.Duration) time.Duration { return each + each/slack + 1 }

// overflowed records that only the first blocks of many arrived. Took is the time that the path
// needed for run blocks, including a round trip.
func (p *pacer) overflowed(arrived int64, took, trip time.Duration, run int64) {
	p.passed, p.clean, p.strikes = 0, 0, 0
	least := slacken(max(took-trip, 0) / time.Duration(run-1))
	most := took / time.Duration(run-1) // as if the next run waited for the answer
	if p.each == 0 || p.guess {
		p.each, p.guess = least, false
	}
	if !p.lower(arrived) {
		p.each, p.wary = p.each+p.each/4, true
	}
	p.each = min(max(p.each, least), max(most, least))
}

// lostTail records that, as a timeout revealed, only some blocks of the latest burst arrived.
// Arrived is 0 if their number is unknown.
func (p *pacer) lostTail(arrived, window int64, trip time.Duration) {
	p.passed, p.clean = 0, 0
	if arrived == 0 {
		arrived = p.holds // so bursts of that size are too large or too early
	}
	if arrived <= 0 || window == 1 {
		return // a path that is down has no room for one block either
	}
	p.best = max(p.best, arrived)
	if p.strikes += strike; p.strikes < maxStrikes {
		return
	}
	arrived = p.best
	p.strikes, p.best = 0, 0
	if !p.lower(arrived) {
		p.slower(trip)
	}
}

// lower limits holds to the number of blocks that arrived. It reports false if holds was already
// that low.
func (p *pacer) lower(arrived int64) bool {
	switch {
	case p.holds == 0:
		p.trust = max(p.trust, minTrust)
	case arrived < p.holds:
		p.trust = min(2*p.trust, maxTrust)
	default:
		return false
	}
	p.holds = arrived
	if p.each == 0 {
		p.each, p.guess = max(1, firstPause/time.Duration(arrived)), true
	}
	return true
}

// slower increases the time for each block, because even fewer blocks than the path holds were too
// many. Limit bounds the time for all of them.
func (p *pacer) slower(limit time.Duration) {
	limit = max(min(limit, maxDrain), firstPause) / time.Duration(p.holds)
	p.each, p.wary = max(p.each, min(2*p.each, limit)), true
}

// lostRun records that consecutive blocks were lost. If a larger burst was being tried, it was too
// large.
func (p *pacer) lostRun() {
	if p.held > 0 {
		p.holds, p.held, p.clean, p.passed = p.held, 0, 0, 0
		p.trust = min(2*p.trust, maxTrust)
	}
}

// hurried records that everything after a gap inside a window is sent again. If the pace is only
// guessed, it may be what overflows the path again and again.
func (p *pacer) hurried() {
	if p.guess && p.holds >= trialBlocks {
		p.each = max(p.each, min(2*p.each, 2*longPause/time.Duration(p.holds)))
	}
}

// came records that n more blocks arrived. As many blocks as a window has, with no sign that its
// end was lost, count as a clean window, even if other blocks were lost.
func (p *pacer) came(n, window int64) {
	if p.passed += n; p.passed < window {
		return
	}
	p.passed, p.held = 0, 0
	if p.strikes = max(0, p.strikes-1); p.strikes == 0 {
		p.best = 0
	}
	if p.holds == 0 {
		return
	}
	p.clean++
	if p.clean%shortRun == 0 && p.guess {
		p.each = min(p.each, max(p.each/2, firstPause/time.Duration(p.holds)))
	}
	if p.clean < p.trust {
		return
	}
	p.clean, p.wary, p.held = 0, false, p.holds
	if p.holds += max(1, p.holds/4); p.holds >= window {
		p.holds = 0
	}
}

// A trial sends half as many blocks as arrived, so that there is room for them, and at most
// trialBlocks. That is enough to measure the path's time for each block, and not a great waste if
// the blocks turn out not to be missing.
const trialBlocks = 16

func trialOf(arrived int64) int64 { return max(minRun, min(arrived/2, trialBlocks)) }
