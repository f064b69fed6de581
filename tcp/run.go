package tcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A run is one call of Serve.
type run struct {
	gate
	sockets   []*Socket
	acceptors []*acceptor
	watch     watch
	unlisten  func() // closes the Listener, if it is one's

	halted chan struct{} // closed by Halt
	once   sync.Once     // of that

	left0  chan struct{} // closed when no acceptor accepts any more
	mu     sync.Mutex
	accept int   // mu: acceptors that do
	err    error // mu: of the first that failed
}

// newRun takes over the sockets. Loops serve them if that is wanted, and the system has them.
func (s *Server) newRun(ctx context.Context, sockets []*Socket, loops bool) (*run, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(sockets) == 0 {
		return nil, errors.New("tcp: no socket to serve")
	}
	s.once.Do(s.init)
	r := &run{
		gate: gate{s: s, draining: make(chan struct{})}, sockets: sockets,
		halted: make(chan struct{}), left0: make(chan struct{}),
		watch: watch{wake: make(chan struct{}, 1)},
	}
	r.ctx, r.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), gateKey{}, &r.gate))
	r.handshakes, r.counts, r.over = s.handshakes, &s.counts, r.ctx.Done()
	r.lastCall = cmp.Or(s.lastCall, defaultLastCall)
	r.keepTimes()
	if err := r.takeSockets(loops && hasLoops); err != nil {
		for _, a := range r.acceptors {
			a.loop.close()
		}
		for _, so := range sockets {
			so.unserve(&r.watch)
		}
		return nil, err
	}
	r.watch.acceptors, r.accept = r.acceptors, len(r.acceptors)
	return r, nil
}

// takeSockets makes an acceptor for each kernel socket.
func (r *run) takeSockets(loops bool) error {
	for _, so := range r.sockets {
		if err := so.serve(&r.watch); err != nil {
			return err
		}
		for _, k := range so.kernels {
			a := &acceptor{g: &r.gate, watch: &r.watch, ended: r.acceptorEnded, k: k, roster: newRoster(&r.shared, r.left, r.s.FirstBytes)}
			if loops {
				var err error
				if a.loop, err = newLoop(a); err != nil {
					return fmt.Errorf("serve %v: %w", so.addr, err)
				}
				r.onPlace = r.placeFree
			}
			r.acceptors = append(r.acceptors, a)
		}
	}
	return nil
}

// placeFree wakes a loop that waits for a place for a connection.
func (r *run) placeFree() {
	for _, a := range r.acceptors {
		a.loop.placeFree()
	}
}

// keepTimes sets the timeouts, and how exactly they are kept.
func (r *run) keepTimes() {
	s := r.s
	r.firstPhase = listening
	if s.TLS != nil || s.hasProxies() {
		r.firstPhase = opening
	}
	r.handshakeTime = cmp.Or(s.HandshakeTimeout, DefaultHandshakeTimeout)
	shortest := r.handshakeTime // StartTLS may need it at any time
	for _, t := range []time.Duration{s.FirstByteTimeout, s.IdleTimeout} {
		if t > 0 {
			shortest = min(shortest, t)
		}
	}
	r.tick = min(max(shortest/16, time.Millisecond), time.Second)
	inTicks := func(t time.Duration) int64 { return int64((t + r.tick - 1) / r.tick) }
	r.ticks = limits{inTicks(r.handshakeTime), inTicks(s.FirstByteTimeout), inTicks(s.IdleTimeout)}
	r.began = time.Now()
	r.clock.Store(1)
}

// serveUntil serves until ctx ends, and until the handlers have returned.
func (r *run) serveUntil(ctx context.Context) error {
	over := make(chan struct{})
	var helpers sync.WaitGroup
	r.start(&helpers, over)
	select {
	case <-ctx.Done():
	case <-r.left0: // all sockets are closed, or cannot be accepted from
	case <-r.halted:
	}
	r.drain()
	served := make(chan struct{})
	go func() {
		r.wait()
		close(served)
	}()
	cut := r.awaitEnd(served)
	close(over)
	helpers.Wait()
	r.finishRun()
	r.mu.Lock()
	defer r.mu.Unlock()
	if cut > 0 {
		return errors.Join(r.err, fmt.Errorf("%w: %d", ErrCut, cut))
	}
	return r.err
}

// start begins to accept connections.
func (r *run) start(helpers *sync.WaitGroup, over <-chan struct{}) {
	loops := false
	for _, a := range r.acceptors {
		if loops = a.loop != nil; loops {
			a.work.Go(a.loop.run)
		} else {
			a.start()
		}
	}
	if !loops { // no worker has a role that could be taken
		helpers.Go(func() { r.watch.loop(over) })
	}
	helpers.Go(func() { r.sweep(over) })
}

// drain begins the end: clients that are connected by now are still served.
func (r *run) drain() {
	r.drains.Store(true)
	close(r.draining)
	for _, so := range r.sockets {
		_ = so.Close()
	}
	for _, a := range r.acceptors {
		a.roster.nudge()
		a.loop.wake()
	}
}

// awaitEnd waits for the handlers, and after the Grace ends their connections. It returns
// how many it ended.
func (r *run) awaitEnd(served <-chan struct{}) (cut int) {
	var late <-chan time.Time
	if grace := cmp.Or(r.s.Grace, DefaultGrace); grace > 0 {
		t := time.NewTimer(grace)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-served:
		r.cancel(ErrCut)
		return 0
	case <-late:
	case <-r.halted:
	}
	r.cancel(ErrCut)
	// Connections that were accepted before, and waited for a place, may start only now.
	for {
		cut += r.cut()
		select {
		case <-served:
			return cut
		case <-time.After(cutAgain):
		}
	}
}

// cut ends all connections, and returns how many.
func (r *run) cut() (n int) {
	for _, a := range r.acceptors {
		n += a.roster.cut(ErrCut)
		a.loop.wake() // it may wait for a place
	}
	return n
}

// cutAgain is the time between two searches for connections to end.
const cutAgain = 10 * time.Millisecond

// wait returns when all workers have.
func (r *run) wait() {
	for _, a := range r.acceptors {
		a.work.Wait()
	}
}

// finishRun removes the run from its server.
func (r *run) finishRun() {
	_, accepted := r.totals()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	delete(r.s.runs, r)
	r.s.past += accepted
}

// halt ends all at once.
func (r *run) halt() {
	r.once.Do(func() { close(r.halted) })
	if r.unlisten != nil {
		r.unlisten()
		r.cut()
	}
}

// totals returns how many connections there are, and have been.
func (r *run) totals() (live int, accepted uint64) {
	for _, a := range r.acceptors {
		n, m := a.roster.counts()
		live += n
		accepted += m
	}
	return live, accepted
}

// acceptorEnded counts an acceptor that has ended.
func (r *run) acceptorEnded(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.accept--; r.accept == 0 {
		close(r.left0)
	}
	if !errors.Is(err, net.ErrClosed) && r.err == nil {
		r.err = fmt.Errorf("accept: %w", err)
		if r.accept > 0 {
			close(r.left0) // if one fails, all end
			r.accept = -1
		}
	}
}

// sweep keeps the clock, and ends connections that ran out of time.
func (r *run) sweep(over <-chan struct{}) {
	t := time.NewTicker(r.tick)
	defer t.Stop()
	for {
		select {
		case <-over:
			return
		case <-t.C:
		}
		now := int64(time.Since(r.began)/r.tick) + 1
		r.clock.Store(now)
		for _, a := range r.acceptors {
			a.roster.sweep(now)
		}
	}
}
