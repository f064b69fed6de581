package tcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A run is one call of Serve.
type run struct {
	s         *Server
	sockets   []*Socket
	acceptors []*acceptor
	watch     watch

	// Of a Listener: what takes a connection instead of Handle, what closes it, and
	// a place for each connection that waits for Accept.
	hand     func(*Conn)
	unlisten func()
	pending  chan struct{}

	ctx      context.Context // of the handlers
	cancel   context.CancelCauseFunc
	draining chan struct{} // closed when the end begins
	drains   atomic.Bool   // and then true
	halted   chan struct{} // closed by Halt
	once     sync.Once     // of that

	began      time.Time
	tick       time.Duration
	ticks      limits
	firstPhase int32
	lastCall   time.Duration
	clock      atomic.Int64 // ticks since began, and one

	left0    chan struct{} // closed when no acceptor accepts any more
	mu       sync.Mutex
	accept   int   // mu: acceptors that do
	err      error // mu: of the first that failed
	loggedAt atomic.Int64
}

// newRun takes the sockets, for their connections to be accepted.
func (s *Server) newRun(ctx context.Context, sockets []*Socket) (*run, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(sockets) == 0 {
		return nil, errors.New("tcp: no socket to serve")
	}
	s.once.Do(s.init)
	r := &run{
		s: s, sockets: sockets,
		draining: make(chan struct{}), halted: make(chan struct{}), left0: make(chan struct{}),
		lastCall: orDefault(s.lastCall, defaultLastCall),
		watch:    watch{wake: make(chan struct{}, 1)},
	}
	r.ctx, r.cancel = context.WithCancelCause(context.WithValue(context.WithoutCancel(ctx), runKey{}, r))
	r.keepTimes()
	for _, so := range sockets {
		if err := so.serve(r); err != nil {
			for _, so := range sockets {
				so.unserve(r)
			}
			return nil, err
		}
		for _, k := range so.kernels {
			r.acceptors = append(r.acceptors, &acceptor{r: r, k: k, roster: newRoster(r)})
		}
	}
	r.watch.acceptors, r.accept = r.acceptors, len(r.acceptors)
	return r, nil
}

// runKey is what a handler's context has its run by.
type runKey struct{}

// Draining returns a channel that is closed when the server of a handler begins to
// end, by the context that the handler was given. A handler that serves request
// after request then ends after the one it is at. It returns nil for other contexts.
func Draining(ctx context.Context) <-chan struct{} {
	if r, ok := ctx.Value(runKey{}).(*run); ok {
		return r.draining
	}
	return nil
}

func (r *run) isDraining() bool { return r.drains.Load() }

// keepTimes finds out which times are to be kept, and how exactly.
func (r *run) keepTimes() {
	s := r.s
	r.firstPhase = listening
	if s.TLS != nil || s.hasProxies() {
		r.firstPhase = opening
	}
	handshake := orDefault(s.HandshakeTimeout, DefaultHandshakeTimeout)
	shortest := handshake // StartTLS may need it at any time
	for _, t := range []time.Duration{s.FirstByteTimeout, s.IdleTimeout} {
		if t > 0 {
			shortest = min(shortest, t)
		}
	}
	r.tick = min(max(shortest/16, time.Millisecond), time.Second)
	inTicks := func(t time.Duration) int64 { return int64((t + r.tick - 1) / r.tick) }
	r.ticks = limits{inTicks(handshake), inTicks(s.FirstByteTimeout), inTicks(s.IdleTimeout)}
	r.began = time.Now()
	r.clock.Store(1)
}

// serveUntil serves until ctx ends, and comes to an end then.
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

// start has connections accepted.
func (r *run) start(helpers *sync.WaitGroup, over <-chan struct{}) {
	for _, a := range r.acceptors {
		a.start()
	}
	helpers.Go(func() { r.watch.run(over) })
	helpers.Go(func() { r.sweep(over) })
}

// drain begins the end: what was connected by now is still served.
func (r *run) drain() {
	r.drains.Store(true)
	close(r.draining)
	for _, so := range r.sockets {
		_ = so.Close()
	}
	for _, a := range r.acceptors {
		a.roster.nudge()
	}
}

// awaitEnd waits for the handlers, and when their time is up ends their connections.
// It returns how many had to be ended.
func (r *run) awaitEnd(served <-chan struct{}) (cut int) {
	var late <-chan time.Time
	if grace := orDefault(r.s.Grace, DefaultGrace); grace > 0 {
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
	// Connections accepted before, which waited for a place, may begin only now.
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
	}
	return n
}

// cutAgain is how soon it is looked again for connections to be ended.
const cutAgain = 10 * time.Millisecond

// wait returns when all workers have.
func (r *run) wait() {
	for _, a := range r.acceptors {
		a.work.Wait()
	}
}

// finishRun takes the run off its server.
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

// acceptorEnded counts an acceptor that accepts no more.
func (r *run) acceptorEnded(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.accept--; r.accept == 0 {
		close(r.left0)
	}
	if !errors.Is(err, net.ErrClosed) && r.err == nil {
		r.err = fmt.Errorf("accept: %w", err)
		if r.accept > 0 {
			close(r.left0) // one that does not work is the end of all
			r.accept = -1
		}
	}
}

// admit decides whether a connection that was accepted is served. It waits for a
// place, if that is the way.
func (r *run) admit(c *conn) bool {
	c.source = netip.Addr{}
	if p := &r.s.places; p.max > 0 && !p.take() {
		if r.s.Refuse || !p.wait(r.ctx.Done()) {
			return r.refuse(c)
		}
	}
	if r.s.sources != nil {
		from := c.sysSource()
		if r.isProxy(from) {
			return true // its clients are counted
		}
		if !r.s.sources.enter(from) {
			r.left(netip.Addr{})
			return r.refuse(c)
		}
		c.source = from
	}
	return true
}

// refuse has the connection reset when it is closed.
func (r *run) refuse(c *conn) bool {
	r.s.counts.refused.Add(1)
	_ = c.sysLinger(0)
	return false
}

// left gives back what admit has taken.
func (r *run) left(source netip.Addr) {
	if r.s.places.max > 0 {
		r.s.places.give()
	}
	if source.IsValid() {
		r.s.sources.leave(source)
	}
}

// isProxy reports whether connections of a source begin with a PROXY header. A source
// that is not valid is a peer on a unix socket.
func (r *run) isProxy(a netip.Addr) bool {
	if !a.IsValid() {
		return r.s.UnixProxies
	}
	return inAny(r.s.Proxies, a)
}

// allows reports whether Allow and Deny let an address connect.
func (s *Server) allows(a netip.Addr) bool {
	return !inAny(s.Deny, a) && (len(s.Allow) == 0 || inAny(s.Allow, a))
}

// inAny reports whether an address is in one of some networks.
func inAny(networks []netip.Prefix, a netip.Addr) bool {
	a = a.WithZone("")
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// awaitAccept waits while too many connections of a Listener wait for who calls
// Accept.
func (r *run) awaitAccept() {
	if r.pending != nil {
		r.pending <- struct{}{}
		<-r.pending
	}
}

// serve has a connection served, and ends it.
func (r *run) serve(c *conn, h *Conn) {
	if r.hand != nil {
		r.hand(h)
		return
	}
	defer r.finish(h, nil)
	if nc := r.open(c, h); nc != nil {
		r.s.Handle(r.ctx, nc)
	}
}

// open does what comes before a handler, and counts if that fails, for which it
// returns nil.
func (r *run) open(c *conn, h *Conn) net.Conn {
	nc, err := r.opened(c, h)
	switch {
	case err == nil:
		return nc
	case errors.Is(err, errTooMany), errors.Is(err, errDenied):
		r.s.counts.refused.Add(1)
		_ = h.SetLinger(0)
	default:
		r.s.counts.badHandshakes.Add(1)
		if report := r.s.BadHandshake; report != nil && !errors.Is(err, ErrDraining) && !errors.Is(err, ErrCut) {
			report(h, err)
		}
	}
	return nil
}

// opened waits for the PROXY header and for TLS. A connection that Allow or Deny refuses,
// or of a client that has too many, ends after the header.
func (r *run) opened(c *conn, h *Conn) (net.Conn, error) {
	var client netip.Addr // that a proxy names
	if r.s.hasProxies() && r.isProxy(c.sysSource()) {
		var err error
		if client, err = r.readHeader(c, h); err != nil {
			return nil, err
		}
	}
	if s := r.s; len(s.Allow)+len(s.Deny) > 0 && !s.allows(cmp.Or(client, c.sysSource())) {
		if s.Denied != nil {
			s.Denied(h.RemoteAddr())
		}
		return nil, errDenied
	}
	if r.s.sources != nil && client.IsValid() {
		if !r.s.sources.enter(client) {
			return nil, errTooMany
		}
		c.source = client
	}
	if r.s.TLS != nil {
		return r.handshake(h, r.s.TLS)
	}
	c.enter(listening)
	return h, nil
}

// finish ends a connection when its handler has returned or panicked, unless it was
// handed over before.
func (r *run) finish(h *Conn, given *bool) {
	if v := recover(); v != nil {
		r.s.counts.panics.Add(1)
		r.s.log().Error("tcp: a handler panicked", "peer", h.RemoteAddr().String(), "panic", v, "stack", string(debug.Stack()))
	}
	if given != nil && *given {
		return
	}
	if t := h.tls.Load(); t != nil {
		_ = t.Close() // sends close_notify
	}
	h.close()
}

// sleep waits. It reports false if the end comes first.
func (r *run) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.draining:
		return false
	}
}

// acceptFailed notes that accepting has to wait. It is logged once in a while.
func (r *run) acceptFailed(err error, delay time.Duration) {
	r.s.counts.acceptErrors.Add(1)
	now := time.Now().UnixNano()
	if last := r.loggedAt.Load(); now-last < int64(time.Minute) || !r.loggedAt.CompareAndSwap(last, now) {
		return
	}
	r.s.log().Warn("tcp: cannot accept connections for now; are there enough descriptors (ulimit -n)?", "error", err, slog.Duration("delay", delay))
}

// sweep keeps the clock, and ends connections of which a time is up.
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

// ago returns for how long a connection has been there that began at a tick.
func (r *run) ago(tick int64) time.Duration {
	return time.Duration(max(0, r.clock.Load()-tick)) * r.tick
}
