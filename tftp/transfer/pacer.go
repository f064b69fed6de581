package transfer

import "time"

const (
	// A window that loses its end counts strike, one that does not takes one
	// back, and at maxStrikes they are sent in bursts, or smaller ones: a last
	// packet may be lost anywhere, but not that of every third window. Where a
	// trial has shown that the end was lost, nothing is counted.
	strike     = 2
	maxStrikes = 3 * strike

	// firstPause is how long the path is taken to need for all that it holds,
	// where nothing is known of it. It is doubled, up to a round trip and
	// maxDrain, as long as the ends are lost all the same, and halved again after
	// shortRun windows that came through.
	firstPause = time.Millisecond
	maxDrain   = 64 * time.Millisecond
	shortRun   = 4

	// longPause is the longest between bursts, where these can be made smaller
	// instead: peers take a pause of 10 ms for a loss.
	longPause = 5 * time.Millisecond

	// slack is the part of a block's time on the path that is added to it: were
	// blocks to come faster than they leave, a queue would fill in the end.
	slack = 16

	// minRun is how many blocks must leave at once to be a measure of the path.
	minRun = 4

	// A larger burst is tried after so many windows that came through, and
	// after twice as many each time that this was too much.
	minTrust = 16
	maxTrust = 1 << 16
)

// A pacer sends windows in bursts where the path has no room for a whole one:
// the ring of a small network card, or the queue of a switch, holds a few
// packets, and of each window the end is lost. The receiver cannot report that,
// as nothing comes behind, so each such window would cost a timeout.
//
// It thinks of the path as one queue that holds so many blocks and needs a time
// for each.
type pacer struct {
	holds int64         // most blocks at once that came through; 0 for no bound
	held  int64         // what it was, while more is tried; 0 otherwise
	each  time.Duration // that the path needs for a block; 0 while unknown
	guess bool          // each is no more than a guess
	empty time.Time     // when the queue is, if nothing more is sent

	latest  time.Time // when a block left last
	run     int64     // how many left then
	first   int64     // of these, those in a row
	last    int64
	from    int64 // the latest in a row that are worth a measure
	to      int64
	strikes int
	best    int64 // most blocks of a window that came, of those that brought strikes
	passed  int64 // blocks that came through since a window was counted
	clean   int   // windows in a row whose ends were not lost
	trust   int   // how many of these it takes to try more
	wary    bool  // what was measured of each was too short
}

// arrived returns how many came of the latest burst, if k is the highest that
// came and there were more; 0 if k is not of that burst.
func (p *pacer) arrived(k int64) int64 {
	if k < p.from || k >= p.to {
		return 0
	}
	return k - p.from + 1
}

// room returns how many of n blocks may leave now: as many as the queue has
// room for, but none rather than a few.
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

// burst returns how much room makes it worth to send some of n blocks. It does
// not rely on a guess: the queue is to be empty.
func (p *pacer) burst(n int64) int64 {
	if p.guess {
		return p.holds
	}
	return min(n, max(1, min(p.holds/2, int64(longPause/p.each))))
}

// resumes returns when there is that room.
func (p *pacer) resumes(n int64) time.Time {
	return p.empty.Add(-time.Duration(p.holds-p.burst(n)) * p.each)
}

// took notes that n blocks have left, and which was the first of them.
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

// drained notes that the path was busy for d with a run of so many blocks, or
// more.
func (p *pacer) drained(d time.Duration, run int64) {
	if p.wary || run < minRun || d <= 0 {
		return
	}
	each := slacken(d / time.Duration(run-1)) // the trip has one of them in it
	if p.each == 0 || p.guess || each < p.each {
		p.each, p.guess = each, false
	}
}

func slacken(each time.Duration) time.Duration { return each + each/slack + 1 }

// overflowed notes that only the first blocks of many came through. The path
// needed the time given for a run of blocks, and a round trip less than that
// for the blocks alone.
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

// lostTail notes that only so many blocks of the latest burst came through, as
// only a timeout revealed; 0 if that is not known.
func (p *pacer) lostTail(arrived, window int64, trip time.Duration) {
	p.passed, p.clean = 0, 0
	if arrived == 0 {
		arrived = p.holds // so bursts as large as that are too large, or too soon
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

// lower has the path hold no more than the blocks that came through, unless
// that is known.
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

// slower has the path need more for each block, as less than it holds was too
// much; but no more than the limit for all of them.
func (p *pacer) slower(limit time.Duration) {
	limit = max(min(limit, maxDrain), firstPause) / time.Duration(p.holds)
	p.each, p.wary = max(p.each, min(2*p.each, limit)), true
}

// lostRun notes that blocks in a row were lost. If more than before was tried, that
// was too much.
func (p *pacer) lostRun() {
	if p.held > 0 {
		p.holds, p.held, p.clean, p.passed = p.held, 0, 0, 0
		p.trust = min(2*p.trust, maxTrust)
	}
}

// hurried notes that a gap inside a window has everything behind it go out
// again. Where the pace is only guessed, it may be what overflows the path time and again.
func (p *pacer) hurried() {
	if p.guess && p.holds >= trialBlocks {
		p.each = max(p.each, min(2*p.each, 2*longPause/time.Duration(p.holds)))
	}
}

// came notes that n blocks more came through. As many as a window has, and no
// sign that its end was lost, are a clean window, even if other blocks were
// lost.
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

// A trial sends half of what came through, so that there is room for it, and at most
// trialBlocks. These are enough to see how long the path takes for each block, and few
// if they turn out not to have been missing.
const trialBlocks = 16

func trialOf(arrived int64) int64 { return max(minRun, min(arrived/2, trialBlocks)) }
