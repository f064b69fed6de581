package tcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/drive"
)

// A run is one call of Serve, or one Listener.
type run struct {
	opener
	sockets   []*Socket
	acceptors []*acceptor
	watch     watch
	unlisten  func() // closes the Listener, if the run belongs to one

	halted chan struct{} // closed by halt: the remaining connections end without a grace period
	once   sync.Once     // makes halt close halted once

	left0  chan struct{} // closed when no acceptor accepts any more, or one of them has failed
	mu     sync.Mutex
	accept int   // number of acceptors that still accept. Guarded by mu
	err    error // the error of the first acceptor that failed. Guarded by mu
}

// newRun prepares a run that serves the sockets. If driver is not nil, its loops serve the
// connections.
func (s *Server) newRun(ctx context.Context, sockets []*Socket, driver drive.Driver) (*run, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(sockets) == 0 {
		return nil, errors.New("tcp: no socket to serve")
	}
	s.init()
	r := &run{
		opener: opener{s: s, draining: make(chan struct{})}, sockets: sockets,
		halted: make(chan struct{}), left0: make(chan struct{}),
		watch: watch{wake: make(chan struct{}, 1)},
	}
	r.ctx, r.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), openerKey{}, &r.opener))
	r.setGate()
	r.Begin(s.TLS != nil || r.HasProxies())
	if err := r.takeSockets(driver); err != nil {
		for _, a := range r.acceptors {
			if a.loop != nil {
				a.loop.Close()
			}
		}
		for _, so := range sockets {
			so.unserve(&r.watch)
		}
		return nil, err
	}
	r.watch.acceptors, r.accept = r.acceptors, len(r.acceptors)
	return r, nil
}

// setGate copies the server's settings and shared state into the run's gate.
func (r *run) setGate() {
	s, g := r.s, &r.Gate
	g.Counts, g.Handshakes, g.Over, g.Log = &s.shared.counts, s.shared.handshakes, r.ctx.Done(), s.Log
	g.Times = conns.Times{
		Handshake: cmp.Or(s.HandshakeTimeout, defaultHandshakeTimeout), FirstByte: s.FirstByteTimeout, Idle: s.IdleTimeout,
		Drain: cmp.Or(s.drainTime, defaultDrainTime),
	}
	if report := s.FirstBytes; report != nil {
		g.FirstBytes = func(h net.Conn, b []byte) { report(h.(*Conn), b) }
	}
	g.Places, g.Sources, g.Refuse, g.Refused = s.shared.places, s.shared.sources, s.Refuse, s.Refused
	g.Allow, g.Deny, g.Proxies, g.UnixProxies = s.Allow, s.Deny, s.Proxies, s.UnixProxies
}

// takeSockets makes an acceptor for each kernel socket, with a loop if driver has loops.
func (r *run) takeSockets(driver drive.Driver) error {
	for _, so := range r.sockets {
		if err := so.serve(&r.watch); err != nil {
			return err
		}
		for _, k := range so.kernels {
			a := &acceptor{g: &r.opener, watch: &r.watch, ended: r.acceptorEnded, k: k, roster: conns.NewRoster(&r.Group, r.Left)}
			if driver != nil {
				l, err := driver.NewLoop(a.socket())
				if err != nil {
					return fmt.Errorf("serve %v: %w", so.addr, err)
				}
				if l != nil {
					a.useLoop(l)
					r.OnPlace = r.placeFree
				}
			}
			r.acceptors = append(r.acceptors, a)
		}
	}
	return nil
}

// placeFree makes loops that wait for a place try again.
func (r *run) placeFree() {
	for _, a := range r.acceptors {
		a.loop.PlaceFree()
	}
}

// serveUntil serves until ctx is done. Then it waits until the handlers have returned, and ends
// their connections if that takes longer than Server.Grace.
func (r *run) serveUntil(ctx context.Context) error {
	over := make(chan struct{})
	var helpers sync.WaitGroup
	r.start(&helpers, over)
	select {
	case <-ctx.Done():
	case <-r.left0: // all sockets are closed, or accepting has failed
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

// start starts the acceptors, the watch, and the goroutine that ends connections that exceed a
// timeout.
func (r *run) start(helpers *sync.WaitGroup, over <-chan struct{}) {
	loops := false
	for _, a := range r.acceptors {
		if loops = a.loop != nil; loops {
			a.work.Go(a.loop.Run)
		} else {
			a.start()
		}
	}
	if !loops { // loops have no workers, so there is no role for the watch to take away
		helpers.Go(func() { r.watch.loop(over) })
	}
	helpers.Go(func() { r.keepTime(over) })
}

// drain makes the run stop accepting. Clients that are already connected are still served.
func (r *run) drain() {
	r.Drain()
	close(r.draining)
	for _, so := range r.sockets {
		_ = so.Close()
	}
	for _, a := range r.acceptors {
		a.roster.Nudge()
		a.wakeLoop()
	}
}

// awaitEnd waits until all handlers have returned. After Server.Grace it ends the connections of the
// handlers that have not returned. It returns the number of connections that it ended.
func (r *run) awaitEnd(served <-chan struct{}) (cut int) {
	var late <-chan time.Time
	if grace := cmp.Or(r.s.Grace, defaultGrace); grace > 0 {
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
	// A connection that was accepted earlier, and then waited for a place, may get a handler only now.
	// So repeat the search.
	for {
		cut += r.cut()
		select {
		case <-served:
			return cut
		case <-time.After(cutAgain):
		}
	}
}

// cut ends all connections, and returns their number.
func (r *run) cut() (n int) {
	for _, a := range r.acceptors {
		n += a.roster.Cut(ErrCut)
		a.wakeLoop() // the loop may be waiting for a place, so it would not notice the cut
	}
	return n
}

// cutAgain is the interval at which awaitEnd searches for more connections to end.
const cutAgain = 10 * time.Millisecond

// wait returns when all workers and loops of the run have exited.
func (r *run) wait() {
	for _, a := range r.acceptors {
		a.work.Wait()
	}
}

// finishRun removes the run from its server, and adds its number of accepted connections to the
// server's total.
func (r *run) finishRun() {
	_, accepted := r.totals()
	r.s.runs.remove(r, accepted)
}

// halt makes the run end all connections at once, without waiting for Server.Grace.
func (r *run) halt() {
	r.once.Do(func() { close(r.halted) })
	if r.unlisten != nil {
		r.unlisten()
		r.cut()
	}
}

// totals returns the number of live connections, and the number of connections accepted so far.
func (r *run) totals() (live int, accepted uint64) {
	for _, a := range r.acceptors {
		n, m := a.roster.Counts()
		live += n
		accepted += m
	}
	return live, accepted
}

// acceptorEnded records that an acceptor no longer accepts. err is net.ErrClosed unless accepting
// has failed.
func (r *run) acceptorEnded(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.accept--; r.accept == 0 {
		close(r.left0)
	}
	if !errors.Is(err, net.ErrClosed) && r.err == nil {
		r.err = fmt.Errorf("accept: %w", err)
		if r.accept > 0 {
			close(r.left0) // if one acceptor fails, the whole run ends
			r.accept = -1
		}
	}
}

// keepTime advances the group's clock, and ends connections that exceed a timeout.
func (r *run) keepTime(over <-chan struct{}) {
	t := time.NewTicker(r.Tick())
	defer t.Stop()
	for {
		select {
		case <-over:
			return
		case <-t.C:
		}
		now := r.Advance()
		for _, a := range r.acceptors {
			a.roster.Expire(now)
		}
	}
}
