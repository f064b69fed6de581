package mux

import (
	"context"
	"errors"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// New begins with one lane on one connection. If that is owned, it is closed
// with the mux, or if there is an error.
func New(ctx context.Context, first Carrier, owned bool, config Config) (*Mux, error) {
	m := &Mux{config: config, transfers: map[*Transfer]struct{}{}}
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	conn := &connection{carrier: first, owned: owned, limit: config.Lanes, opening: 1}
	m.pool = lanePool{canConnect: config.Connect != nil, maxConns: config.Conns, lanesEach: config.Lanes, conns: []*connection{conn}}
	ctx, cancel := context.WithTimeoutCause(ctx, config.Timeout, ErrHandshakeTime)
	defer cancel()
	l, g, err := m.firstLane(ctx, conn)
	if err != nil {
		m.stop(err)
		if owned {
			_ = first.Close()
		}
		return nil, err
	}
	m.Server = newServer(g, first, config)
	limits := pipeline.Limits{MaxBytes: config.Memory, Lanes: config.Lanes * config.Conns}
	if n := config.Requests; n > 0 {
		limits.Requests = n
		limits.MaxBytes = min(config.Memory, n*max(m.Server.ReadChunk, m.Server.WriteChunk))
	}
	m.link = pipeline.NewLink(limits)
	m.ops = pipeline.NewOps(pipeline.OpsLimits{Min: minCalls})
	m.pool.link, m.pool.ops = m.link, m.ops
	m.mu.Lock()
	m.prefetched = g.prefetched
	m.startLane(l)
	m.mu.Unlock()
	return m, nil
}

// Close ends the mux: see [Client.Close].
func (m *Mux) Close() error {
	m.Drain()
	m.mu.Lock()
	closed := m.err
	m.fail(ErrClosed)
	conns := m.pool.conns
	m.pool.conns = nil
	m.mu.Unlock()
	m.stop(ErrClosed)
	for _, conn := range conns {
		if conn.owned && conn.carrier != nil { // one that is being made ends by itself
			_ = conn.carrier.Close()
		}
	}
	m.work.Wait()
	if errors.Is(closed, ErrClosed) {
		return closed
	}
	return nil
}

// A State is what a mux has under way, and what it knows of the path to the server.
type State struct {
	Conns, Lanes int // that are open
	Window       int // bytes that may be in flight
	InFlight     int // bytes that are
	RoundTrip    time.Duration
	Rate         int64 // bytes a second

	Transfers  int
	Requests   int  // 0: none is to be answered or sent; one that is sent counts twice
	Closing    int  // CLOSEs that nobody waits for, and that are not answered
	Unsent     bool // there are requests without data that were not sent
	LastLoss   error
	Prefetched []byte // what came with the handshake; nil if nothing did, or it was taken
}

// State returns what is under way now.
func (m *Mux) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{
		Conns: len(m.pool.conns), Lanes: m.pool.open(), Window: m.link.Window(), InFlight: m.pool.outstanding(),
		RoundTrip: m.link.RoundTrip(), Rate: m.link.Rate(),
		Transfers: len(m.transfers), Requests: m.table.data + m.calls.Len() + m.ops.Outstanding(),
		Closing: m.closing, Unsent: !m.requestsSent(), LastLoss: m.last,
	}
	for _, l := range m.pool.lanes {
		if l != nil {
			s.Requests += l.pending
		}
	}
	if m.prefetched != nil {
		s.Prefetched = m.prefetched.data
	}
	return s
}

// Context ends with the mux.
func (m *Mux) Context() context.Context { return m.ctx }

// minCalls is how many requests that carry no data may be in flight before it
// is known how many make sense.
const minCalls = 128
