package penalty

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// These are bounds on the number of connections that wait until others of their source have logged
// in.
const (
	MaxWaiting          = 512
	MaxWaitingPerSource = 64
)

// maxGuesses is how many passwords of one source are checked at a time. Other passwords wait. If
// the source is refused by the time of their turn, they are not checked at all: otherwise many
// could be checked before the first one counts as wrong.
const maxGuesses = 2

// Enter is like [Guard.Admit] for connections that may wait. If only the handshakes of other
// connections prevent this one from beginning its own, Enter waits for its turn. If ctx ends first,
// it returns the refusal that Admit would have returned. A waiting connection counts among all
// connections. At most [MaxWaiting] connections wait, and at most [MaxWaitingPerSource] of one
// source; others are refused.
func (g *Guard) Enter(ctx context.Context, now func() time.Time, from netip.Addr) (*Visit, error) {
	g.mu.Lock()
	v, err := g.admit(now(), from)
	if err != nil {
		g.mu.Unlock()
		return nil, err
	}
	full := g.fullHandshakes(v.sources)
	switch {
	case full == nil:
		g.count(v.sources, 1, 1)
	case g.waitingFor(v.sources) >= MaxWaitingPerSource, len(g.queue) >= MaxWaiting:
		g.mu.Unlock()
		return nil, full
	default:
		v.waiting, v.place = true, make(chan struct{})
		g.queue = append(g.queue, v)
		g.count(v.sources, 1, 0)
	}
	g.mu.Unlock()
	if full == nil {
		return v, nil
	}
	select {
	case <-v.place:
	case <-ctx.Done():
		if g.leave(v) {
			return nil, full
		}
	}
	if err := g.recheck(v, now()); err != nil {
		return nil, err
	}
	return v, nil
}

// waitingFor returns how many connections of a source wait. For a source that is unknown or exempt
// it returns 0. The caller holds mu.
func (g *Guard) waitingFor(nets []netip.Prefix) (n int) {
	if len(nets) == 0 {
		return 0
	}
	for _, v := range g.queue {
		if len(v.sources) > 0 && v.sources[0] == nets[0] {
			n++
		}
	}
	return n
}

// leave removes a connection from the queue. It returns false if the turn of the connection has
// already come.
func (g *Guard) leave(v *Visit) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !v.waiting {
		return false
	}
	v.waiting, v.ended = false, true
	g.queue = slices.DeleteFunc(g.queue, func(w *Visit) bool { return w == v })
	g.count(v.sources, -1, 0)
	return true
}

// recheck ends a visit that has waited, if its source is refused by now.
func (g *Guard) recheck(v *Visit, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.penalty(now, forVisits, v.sources)
	if r == nil {
		return nil
	}
	r.Cause = Penalized
	v.ended = true
	g.count(v.sources, -1, -1)
	g.wake()
	return r
}

// wake lets waiting connections begin their handshakes if there is room. The caller holds mu.
func (g *Guard) wake() {
	g.queue = slices.DeleteFunc(g.queue, func(v *Visit) bool {
		if g.fullHandshakes(v.sources) != nil {
			return false
		}
		v.waiting = false
		g.count(v.sources, 0, 1)
		close(v.place)
		return true
	})
}

// BeginGuess waits until at most one other password of the visitor's source is being checked. If
// too many passwords were wrong by then, it returns a [*Refusal], as [Visit.Guess] does. If ctx
// ends first, it returns the cause of ctx. After the password has been checked, and [Visit.Fail]
// called if it was wrong, the caller calls end once.
func (v *Visit) BeginGuess(ctx context.Context, now func() time.Time) (end func(), err error) {
	guesses := v.guesses()
	if guesses == nil {
		return func() {}, v.Guess(now())
	}
	select {
	case guesses <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := v.Guess(now()); err != nil {
		<-guesses
		return nil, err
	}
	return func() { <-guesses }, nil
}

// guesses returns the semaphore for the passwords of the visitor's source, or nil if their number
// is not bounded.
func (v *Visit) guesses() chan struct{} {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if len(v.sources) == 0 {
		return nil
	}
	l := v.g.live[v.sources[0]]
	if l == nil { // the visit has ended
		return nil
	}
	if l.guesses == nil {
		l.guesses = make(chan struct{}, maxGuesses)
	}
	return l.guesses
}
