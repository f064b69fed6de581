package penalty

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// These bound the number of connections that wait in [Guard.Enter] until other connections have
// logged in or ended.
const (
	MaxWaiting          = 512
	MaxWaitingPerSource = 64
)

// maxGuesses is how many passwords of one source are checked at a time. Further passwords wait, and
// are not checked at all if the source is refused by then. Without this limit, many passwords could
// be checked before the first of them is counted as wrong.
const maxGuesses = 2

// Enter is like [Guard.Admit], but if Admit would refuse the connection only because of the limits
// on handshakes, Enter waits until there is room. If ctx is done first, Enter returns the refusal
// that Admit would have returned. A waiting connection counts among the connections, but not among
// the handshakes. At most [MaxWaiting] connections wait, and at most [MaxWaitingPerSource] of one
// source; Enter refuses others at once.
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

// waitingFor returns how many connections of a source wait. It returns 0 for sources that are unknown
// or exempt. The caller holds mu.
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

// leave removes a connection from the queue, and from the counts. It returns false and does nothing
// if the connection may already begin its handshake.
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

// recheck returns a refusal, and ends the visit, if the source was refused while the visit waited.
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

// wake allows waiting connections to begin their handshakes, as far as the limits on handshakes
// permit. The caller holds mu.
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

// BeginGuess waits until at most one other password of the visitor's source is being checked. If the
// source's passwords are refused by then, it returns a [*Refusal], as [Visit.Guess] does. If ctx is
// done first, it returns the cause. Otherwise the caller checks the password, calls [Visit.Fail] if
// it was wrong, and then calls end once.
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

// guesses returns the semaphore for the passwords of the visitor's source. It returns nil if the
// source is unknown or exempt, or the visit has ended; then the number of checks is not limited.
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
