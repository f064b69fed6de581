package protocol

import "time"

const (
	// The count of strikes shows whether windows keep losing their last blocks. A window that loses
	// them adds `strike`, and any other window subtracts one. At maxStrikes, windows are sent in
	// bursts, or in smaller bursts than before. A last block may be lost by chance, but not in
	// every third window. A loss that a trial has confirmed adds no strikes, because it takes
	// effect at once.
	strike     = 2
	maxStrikes = 3 * strike

	// firstPause is the time that we assume the path takes to drain all blocks that it holds, until
	// that is measured. While ends of windows are still lost, the assumed time doubles, up to a
	// round trip, but at most to maxDrain. It halves again each time the ends of shortRun windows
	// in a row arrive.
	firstPause = time.Millisecond
	maxDrain   = 64 * time.Millisecond
	shortRun   = 4

	// longPause is the longest pause between bursts, if smaller bursts can make it that short. Some
	// peers mistake a pause of 10 ms for a loss.
	longPause = 5 * time.Millisecond

	// slack says by how much a block's measured time on the path is increased: by 1/slack of that
	// time. If blocks entered the queue even slightly faster than they leave it, the queue would
	// eventually fill.
	slack = 16

	// minRun is how many blocks must be sent at once to measure the path.
	minRun = 4

	// These values bound the number of windows in a row that must arrive complete before a larger
	// burst is tried. That number doubles each time the larger burst was too large.
	minTrust = 16
	maxTrust = 1 << 16
)

// The ring of a small network card or the queue of a switch may hold only a few packets, so the end
// of each window is lost. The receiver cannot report such a loss, since nothing follows, so each
// window would cost a timeout. So if the path has no room for a whole window, a pacer splits the
// window into bursts.
//
// The pacer models the path as one queue that holds a certain number of blocks and takes a fixed
// time for each.
type pacer struct {
	holds int64         // largest burst that arrived, in blocks; 0 for no bound
	held  int64         // the previous value of holds while a larger one is tried; 0 otherwise
	each  time.Duration // time that the path takes for a block; 0 while unknown
	guess bool          // `each` was not measured, only guessed
	empty time.Time     // when the queue will be empty if nothing more is sent

	latest  time.Time // when a block was last sent
	run     int64     // how many blocks were sent at the time `latest`
	first   int64     // first and last block of the latest run of consecutive blocks sent at the time `latest`
	last    int64
	from    int64 // first and last block of the latest such run with at least minRun blocks, enough for a measurement
	to      int64
	strikes int
	best    int64 // largest number of blocks that arrived of one burst, among the bursts that added strikes
	passed  int64 // blocks that arrived since the latest clean window was counted
	clean   int   // number of windows in a row whose ends were not lost
	trust   int   // number of such windows needed before a larger burst is tried
	wary    bool  // `each` was too short and was increased, so measurements must not replace it
}

// arrived returns how many blocks of the latest burst arrived, if k is the highest block that
// arrived. It returns 0 if k is not in that burst, or is its last block.
func (p *pacer) arrived(k int64) int64 {
	if k < p.from || k >= p.to {
		return 0
	}
	return k - p.from + 1
}

// room returns how many of n blocks may be sent now: as many as the queue has room for, or 0 if
// that is too few to be worth a burst.
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

// burst returns for how many blocks the queue must have room before it is worth sending some of n
// blocks. If the time for each block is only a guess, the queue must be empty.
func (p *pacer) burst(n int64) int64 {
	if p.guess {
		return p.holds
	}
	return min(n, max(1, min(p.holds/2, int64(longPause/p.each))))
}

// resumes returns the time at which the queue has room for a burst, if n blocks wait to be sent.
func (p *pacer) resumes(n int64) time.Time {
	return p.empty.Add(-time.Duration(p.holds-p.burst(n)) * p.each)
}

// took records that n blocks were sent, beginning with block `first`.
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

// drained records that the path took the time d to carry at least `run` blocks.
func (p *pacer) drained(d time.Duration, run int64) {
	if p.wary || run < minRun || d <= 0 {
		return
	}
	each := slacken(d / time.Duration(run-1)) // d includes the trip of one block
	if p.each == 0 || p.guess || each < p.each {
		p.each, p.guess = each, false
	}
}

func slacken(each time.Duration) time.Duration { return each + each/slack + 1 }

// overflowed records that only the first `arrived` of many blocks arrived. The path took the time
// `took` for `run` blocks; that includes a round trip.
func (p *pacer) overflowed(arrived int64, took, trip time.Duration, run int64) {
	p.passed, p.clean, p.strikes = 0, 0, 0
	least := slacken(max(took-trip, 0) / time.Duration(run-1))
	most := took / time.Duration(run-1) // the upper bound: at this pace, sending a run takes as long as waiting for its answer
	if p.each == 0 || p.guess {
		p.each, p.guess = least, false
	}
	if !p.lower(arrived) {
		p.each, p.wary = p.each+p.each/4, true
	}
	p.each = min(max(p.each, least), max(most, least))
}

// lostTail records a timeout which shows that only the first `arrived` blocks of the latest burst
// arrived. arrived is 0 if their number is unknown.
func (p *pacer) lostTail(arrived, window int64, trip time.Duration) {
	p.passed, p.clean = 0, 0
	if arrived == 0 {
		arrived = p.holds // bursts of that size are too large, or are sent too soon
	}
	if arrived <= 0 || window == 1 {
		return // on a path that is down, even a single block does not arrive
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

// lower limits bursts to the number of blocks that arrived. It reports false if bursts were already
// that small.
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

// slower increases the time for each block, because the end of a burst was lost, although the path
// can hold the whole burst. limit bounds the time for the whole burst.
func (p *pacer) slower(limit time.Duration) {
	limit = max(min(limit, maxDrain), firstPause) / time.Duration(p.holds)
	p.each, p.wary = max(p.each, min(2*p.each, limit)), true
}

// lostRun records that consecutive blocks were lost. If a larger burst is being tried, that burst is
// too large.
func (p *pacer) lostRun() {
	if p.held > 0 {
		p.holds, p.held, p.clean, p.passed = p.held, 0, 0, 0
		p.trust = min(2*p.trust, maxTrust)
	}
}

// hurried records that everything after a gap inside a window is sent again. If the pace is only a
// guess, it may be too fast and overflow the path again and again.
func (p *pacer) hurried() {
	if p.guess && p.holds >= trialBlocks {
		p.each = max(p.each, min(2*p.each, 2*longPause/time.Duration(p.holds)))
	}
}

// came records that n more blocks arrived. If a whole window of blocks arrived without a sign that
// its end was lost, it counts as a clean window, even if other blocks were lost.
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

// A trial sends half as many blocks as arrived, so that the path has room for them, but at most
// trialBlocks. That is enough to measure the path's time for each block, and wastes little if the
// blocks turn out not to be missing.
const trialBlocks = 16

func trialOf(arrived int64) int64 { return max(minRun, min(arrived/2, trialBlocks)) }
