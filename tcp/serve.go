package tcp

import (
	"context"
	"errors"
	"iter"
	"net"
	"sync"
	"time"
)

// Counters returns the counters at this moment, over all calls of Serve and all Listeners.
func (s *Server) Counters() Counters {
	s.init()
	n := &s.shared.counts
	c := Counters{
		Handshakes: len(s.shared.handshakes),
		Refused:    n.Refused.Load(), TimedOut: n.TimedOut.Load(), AcceptErrors: n.AcceptErrors.Load(),
		BadHandshakes: n.BadHandshakes.Load(), Panics: n.Panics.Load(), Cut: n.Cut.Load(),
	}
	c.Conns, c.Accepted = s.runs.totals()
	return c
}

// A Peer describes a live connection.
type Peer struct {
	Remote, Local net.Addr
	Since         time.Duration // time since the connection was accepted, accurate to about a second
	Waits         bool          // the handler waits in WaitReadable for another request
}

// Peers yields the open connections. The loop over them may be slow, because Peers does not keep
// them open meanwhile. So it may yield connections that have ended since the loop began, and miss
// connections that were accepted since then.
func (s *Server) Peers() iter.Seq[Peer] {
	return func(yield func(Peer) bool) {
		for _, r := range s.runs.list() {
			for _, a := range r.acceptors {
				for _, p := range a.roster.Peers() {
					if !yield(Peer(p)) {
						return
					}
				}
			}
		}
	}
}

// ListenAndServe listens on addresses in the format of [Listen], and serves until ctx is done: see
// [Server.Serve].
func (s *Server) ListenAndServe(ctx context.Context, addrs ...string) error {
	if len(addrs) == 0 {
		return errors.New("tcp: no address to listen at")
	}
	var sockets []*Socket
	for _, addr := range addrs {
		socket, err := Listen(ctx, addr, s.Options)
		if err != nil {
			closeAll(sockets)
			return err
		}
		sockets = append(sockets, socket)
	}
	return s.Serve(ctx, sockets...)
}

// Serve serves the connections of sockets until ctx is done or all sockets are closed. Then it
// closes the sockets, waits up to [Server.Grace] for the handlers to return, ends the connections of
// handlers that have not returned, and returns when the last handler has returned. Clients that were
// connected when ctx was cancelled are still served. The error is the one that stopped accepting,
// joined with ErrCut if connections had to be ended.
//
// A socket can be served once. If one of sockets is already served, Serve fails at once and closes
// the others.
func (s *Server) Serve(ctx context.Context, sockets ...*Socket) error {
	if (s.Handle == nil) == (s.Driver == nil) {
		closeAll(sockets)
		return errors.New("tcp: a server needs either Handle or Driver")
	}
	driver := s.Driver
	if s.TLS != nil {
		// With TLS, each connection has a goroutine for its handshake, and that goroutine calls the
		// Driver.
		driver = nil
	}
	r, err := s.newRun(ctx, sockets, driver)
	if err != nil {
		closeAll(sockets)
		return err
	}
	s.runs.add(r)
	return r.serveUntil(ctx)
}

// Halt ends all connections and all calls of Serve at once, without waiting for [Server.Grace]. It
// cannot be undone: a later call of Serve closes its sockets and fails with [net.ErrClosed], and so
// does a later call of Listener. To end a Server that should serve again, cancel the context of
// Serve instead.
func (s *Server) Halt() { s.runs.halt() }

// WithState returns a handler that calls handle with a state for each connection, of a type that
// the program chooses. States are reused. Before the next connection uses a state, its method Reset
// is called, which may keep buffers; without such a method, the state is set to its zero value. A
// state is not reused after a panic.
//
//	s.Handle = tcp.WithState(func(ctx context.Context, c net.Conn, p *parser) { … })
//
// A handler that keeps its state in variables does not need this.
func WithState[S any](handle func(ctx context.Context, c net.Conn, state *S)) func(context.Context, net.Conn) {
	states := sync.Pool{New: func() any { return new(S) }}
	return func(ctx context.Context, c net.Conn) {
		s := states.Get().(*S)
		handle(ctx, c, s)
		if r, ok := any(s).(interface{ Reset() }); ok {
			r.Reset()
		} else {
			var zero S
			*s = zero
		}
		states.Put(s)
	}
}
