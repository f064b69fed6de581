package transfer

import "time"

const (
	// A window that loses its end counts strike, one that does not takes one
	// back, and at maxStrikes they are sent in bursts, or smaller ones: a last
	// packet may be lost anywhere, but not that of every third window.
	strike     = 2
	maxStrikes = 3 * strike

	// minPause is the pause between bursts; it is doubled, up to a round trip
	// and maxPause, as long as their ends are lost all the same, and halved
	// again after shortRun windows that came through.
	minPause = time.Millisecond
	maxPause = 64 * time.Millisecond
	shortRun = 4

	// A larger burst is tried after so many windows that came through, and
	// after twice as many each time that this was too much.
	minTrust = 16
	maxTrust = 1 << 16
)

// A pacer sends windows in bursts where the path has no room for a whole one:
// the ring of a small network card, or the queue of a switch, holds a few
// packets, and of each window the end is lost. The receiver cannot report that,
// as nothing comes behind, so each such window would cost a timeout.
type pacer struct {
	burst   int64 // most blocks at a time; 0 for no bound
	left    int64 // of the burst under way
	pause   time.Duration
	latest  time.Time // when a block left last
	strikes int
	clean   int // windows in a row that came through whole
	trust   int // how many of these it takes to try more
}

// room returns how many of n blocks may leave now.
func (p *pacer) room(now time.Time, n int64) int64 {
	if p.burst == 0 {
		return n
	}
	if !now.Before(p.resumes()) {
		p.left = p.burst
	}
	return min(n, p.left)
}

// resumes returns when the next burst may leave.
func (p *pacer) resumes() time.Time { return p.latest.Add(p.pause) }

// took notes that n blocks have left.
func (p *pacer) took(now time.Time, n int64) {
	if p.burst > 0 {
		p.left = max(0, p.left-n)
		p.latest = now
	}
}

// lostTail notes that only the first blocks of a window came through, and
// nothing but a timeout told.
func (p *pacer) lostTail(arrived, window int64, trip time.Duration) {
	p.clean = 0
	if arrived < 1 || window == 1 {
		return // a path that is down has no room for one block either
	}
	if p.strikes += strike; p.strikes < maxStrikes {
		return
	}
	p.strikes = 0
	switch {
	case p.burst == 0:
		p.burst, p.pause, p.trust = arrived, minPause, max(p.trust, minTrust)
	case arrived < p.burst:
		p.burst, p.trust = arrived, min(2*p.trust, maxTrust)
	default:
		p.pause = max(min(2*p.pause, trip, maxPause), minPause)
	}
}

// whole notes that a window came through.
func (p *pacer) whole(window int64) {
	p.strikes = max(0, p.strikes-1)
	if p.burst == 0 {
		return
	}
	p.clean++
	if p.clean%shortRun == 0 {
		p.pause = max(p.pause/2, minPause)
	}
	if p.clean >= p.trust {
		p.clean = 0
		if p.burst += max(1, p.burst/4); p.burst >= window {
			p.burst = 0
		}
	}
}
