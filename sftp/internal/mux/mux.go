package mux

import (
	"context"
	"errors"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// A Mux holds the connections to one server, and all requests that are in flight on them. Its parts
// have a file each: see the package comment.
type Mux struct {
	core
	Server    *Server
	link      *pipeline.Link // limits the bytes in flight
	ops       *pipeline.Ops  // limits the requests without data that are in flight
	table     requestTable
	pool      pool
	opener    opener
	calls     calls
	transfers transfers
	buffers   bufferUse

	prefetched *prefetched // the first file; nil if no file was prefetched, or after it was used; guarded by mu
}

// ExpectFirst, as the value of [Config].Expect, means the size of the file [Config].First.
const ExpectFirst = -1

// New opens one session on the connection `first`. If owned is set, the mux closes that connection,
// even if New fails. Over a stream, a deadline of ctx replaces the time limit of the handshake,
// because the handshake may include a login that asks a user for a password.
func New(ctx context.Context, first Carrier, owned bool, config Config) (*Mux, error) {
	m := &Mux{core: core{config: config}}
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	conn := &connection{carrier: first, owned: owned, limit: config.Sessions, opening: 1}
	m.pool = pool{canConnect: config.Connect != nil, maxConns: config.Conns, sessionsEach: config.Sessions, streams: conn.isStream(), seed: config.Trip, conns: []*connection{conn}}
	m.opener = opener{core: &m.core, pool: &m.pool, table: &m.table, owner: m, events: m, ready: make(chan struct{})}
	m.calls = calls{core: &m.core, opener: &m.opener, pool: &m.pool, table: &m.table}
	m.transfers = transfers{core: &m.core, opener: &m.opener, pool: &m.pool, table: &m.table, list: map[*transfer]struct{}{}}
	m.opener.expect(config.Expect)
	if _, limited := ctx.Deadline(); !limited || !conn.isStream() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, config.Timeout, ErrHandshakeTime)
		defer cancel()
	}
	s, g, err := m.opener.openFirst(ctx, conn)
	if err != nil {
		m.mu.Lock()
		m.opener.fail(err)
		m.mu.Unlock()
		m.stop(err)
		if owned {
			_ = first.Close()
		}
		close(m.opener.ready)
		m.work.Wait()
		return nil, err
	}
	defer close(m.opener.ready)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.learn(newServer(g, first, config))
	if m.prefetched = g.prefetched; m.prefetched != nil {
		m.learnHandle(m.prefetched.handle)
	}
	m.opener.begin(s)
	return m, nil
}

// learn stores the properties that the server has announced, and sets limits for the bytes and the
// requests in flight.
func (m *Mux) learn(s *Server) {
	limits := pipeline.Limits{MaxBytes: m.config.Memory, Sessions: m.config.Sessions * m.config.Conns}
	if n := m.config.Requests; n > 0 {
		limits.Requests = n
		limits.MaxBytes = min(m.config.Memory, n*max(s.ReadChunk, s.WriteChunk))
	}
	m.link = pipeline.NewLink(limits)
	m.ops = pipeline.NewOps(pipeline.OpsLimits{Min: minCalls})
	m.Server, m.opener.server, m.transfers.server = s, s, s
	m.pool.link, m.transfers.link = m.link, m.link
	m.pool.ops, m.calls.ops = m.ops, m.ops
	m.pool.setFloor(0)
}

// Close calls [Mux.Drain] and then ends the mux. Calls under way fail with [ErrClosed]. A second
// Close returns [ErrClosed] too.
func (m *Mux) Close() error {
	m.Drain()
	if ended := m.opener.closeAll(ErrClosed); errors.Is(ended, ErrClosed) {
		return ended
	}
	return nil
}

// Drain waits until the server has answered the CLOSEs whose results no caller waits for, but at
// most a second: see Drain of the client.
func (m *Mux) Drain() { m.calls.drain() }

// A State describes the activity of a mux, and its measurements of the path to the server.
type State struct {
	Conns, Sessions int // open connections and sessions
	Window          int // limit for the bytes in flight
	InFlight        int // bytes in flight
	RoundTrip       time.Duration
	Rate            int64 // measured throughput, in bytes per second

	Transfers  int
	Requests   bool   // some requests are unanswered or not sent yet
	Closing    int    // number of unanswered CLOSEs whose results no caller waits for
	Unsent     bool   // some requests without data have not been sent
	Held       int64  // bytes in buffers of files: read ahead, or written but not confirmed
	LastLoss   error  // the error of the session that failed most recently
	Guesses    bool   // the first handle of each session can be guessed
	Prefetched []byte // data that arrived with the handshake; nil if none arrived or it was used already
}

// State returns the current state.
func (m *Mux) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{
		Conns: len(m.pool.conns), Sessions: m.pool.open(), Window: m.link.Window(), InFlight: m.pool.outstanding(),
		RoundTrip: m.link.RoundTrip(), Rate: m.link.Rate(),
		Transfers: len(m.transfers.list), Requests: m.table.used()+m.calls.waiting.length() > 0,
		Closing: m.calls.closing, Unsent: !m.calls.allSent(), Held: m.buffers.held, LastLoss: m.last, Guesses: m.firstHandle != "",
	}
	for _, session := range m.pool.sessions {
		s.Requests = s.Requests || session != nil && session.pending > 0
	}
	if m.prefetched != nil {
		s.Prefetched = m.prefetched.data
	}
	return s
}

// RoundTrip returns the best estimate of the round trip to the server, or 0 before the first
// measurement.
func (m *Mux) RoundTrip() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pool.trip()
}

// Context returns a context that ends when the mux is closed or fails.
func (m *Mux) Context() context.Context { return m.ctx }

// Start sends calls without waiting. The calls share one packet if it has room for all of them.
func (m *Mux) Start(list ...*Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls.start(list...)
}

// Await waits until a started call has ended, and returns its error.
func (m *Mux) Await(ctx context.Context, k *Call) error { return m.calls.await(ctx, k) }

// Do sends a call and waits until it has ended.
func (m *Mux) Do(ctx context.Context, k *Call) error { return m.calls.do(ctx, k) }

// CloseHandle asks the server to close a handle, without waiting for the answer. It is meant for
// [Call].Orphan, which runs under the lock.
func (m *Mux) CloseHandle(h Handle) { m.calls.closeHandle(h) }

// The following methods handle the events of sessions. The interfaces sessionOwner and openerEvents
// describe them.

func (m *Mux) sent() { m.calls.wakeDrain() }

func (m *Mux) opened(*Session) {
	now := time.Now()
	m.calls.send(now)
	m.transfers.spreadAll()
	m.transfers.grantRoom(now)
}

func (m *Mux) ended(s *Session) {
	m.opener.noteEnd(s, time.Now())
	if errors.Is(s.err, ErrProtocol) {
		m.transfers.violated(s)
	}
	m.opener.takeBack(s)
	m.opener.dropIdle(s.conn)
	m.broken(s)
}

func (m *Mux) broken(s *Session) {
	m.transfers.sessionLost(s)
	now := time.Now()
	m.calls.send(now)
	m.transfers.grantRoom(now)
}

func (m *Mux) starved(err error) {
	m.calls.failAll(err)
	m.transfers.failAll(err)
	m.calls.wakeDrain()
}
