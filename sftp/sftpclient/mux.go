package sftpclient

import (
	"context"
	"errors"
	"sync"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A mux carries the requests of a [Client] to the server, over as many lanes of as
// many connections as help, and the answers back. What files and directories are is
// nothing to it.
//
// Its mutex guards its lanes, its transfers and the files that they move as well:
// one lost lane changes them all.
type mux struct {
	config  Config
	server  *serverInfo
	connect func(context.Context) (carrier, error) // nil if there is no other connection to be had

	ctx  context.Context // ends with the mux
	stop context.CancelCauseFunc
	work sync.WaitGroup // the goroutines of the mux

	mu         sync.Mutex
	link       *pipeline.Link         // mu
	ops        *pipeline.Ops          // mu
	table      askedTable             // mu
	pool       lanePool               // mu
	careful    bool                   // mu: how channels are opened, see lane.handshake
	queue      fifo[*transfer]        // mu: those that may have something to ask
	calls      fifo[*call]            // mu: those not sent yet
	transfers  map[*transfer]struct{} // mu
	held       int64                  // mu: bytes in buffers of files
	segments   []*segment             // mu: not used
	prefetched *prefetchedFile        // mu: nil if there is none, or it was taken
	closing    int                    // mu: handles whose CLOSE nobody waits for, and that is not answered
	drained    chan struct{}          // mu: closed when Drain should look again; nil if nobody waits
	last       error                  // mu: why a lane ended last
	losses     losses                 // mu
	err        error                  // mu: why no more can be done
}

// newMux begins with one lane on one connection. If that is owned, it is closed
// with the mux, or if there is an error.
func newMux(ctx context.Context, first carrier, owned bool, config Config, connect func(context.Context) (carrier, error)) (*mux, error) {
	m := &mux{config: config, connect: connect, transfers: map[*transfer]struct{}{}}
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	conn := &connection{carrier: first, owned: owned, limit: config.Lanes, opening: 1}
	m.pool = lanePool{canConnect: connect != nil, maxConns: config.Conns, lanesEach: config.Lanes, conns: []*connection{conn}}
	ctx, cancel := context.WithTimeoutCause(ctx, config.Timeout, errHandshakeTime)
	defer cancel()
	l, g, err := m.firstLane(ctx, conn)
	if err != nil {
		m.stop(err)
		if owned {
			_ = first.Close()
		}
		return nil, err
	}
	m.server = newServerInfo(g, first, config)
	limits := pipeline.Limits{MaxBytes: config.Memory, Lanes: config.Lanes * config.Conns}
	if n := min(config.Requests, MaxRequests); n > 0 {
		limits.Requests = n
		limits.MaxBytes = min(config.Memory, n*max(m.server.chunk[0], m.server.chunk[1]))
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

// newServerInfo returns what a server has said in its greeting.
func newServerInfo(g greeting, over carrier, config Config) *serverInfo {
	s := &serverInfo{ext: g.ext, limits: g.limits}
	if c, ok := over.(sshCarrier); ok {
		s.draft = wire.ServerSwapsLinks(string(c.client.ServerVersion()), string(c.client.ClientVersion()))
	}
	s.chunk[0] = chunkFor(g.limits.Read, g.limits.Packet, config)
	s.chunk[1] = chunkFor(g.limits.Write, g.limits.Packet, config)
	return s
}

// chunkFor returns how many bytes of data a request is about, of which a server
// says that it takes so many, in packets of so many, or 0 if it does not say.
func chunkFor(limit, packet uint64, config Config) int {
	n := wire.SureData
	if limit > 0 {
		n = int(min(limit, wire.CommonData))
		if packet > packetRoom {
			n = min(n, int(min(packet-packetRoom, wire.CommonData)))
		}
	}
	if want := config.RequestBytes; want > 0 {
		n = min(n, want)
	}
	return max(1, min(n, config.Memory))
}

// close ends the mux: see [Client.Close].
func (m *mux) close() error {
	m.drain()
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

// fail ends all that is under way. The caller holds mu.
func (m *mux) fail(err error) {
	if m.err == nil {
		m.err = err
	}
	for _, l := range m.pool.lanes {
		if l != nil {
			l.fail(m.err)
		}
	}
	m.failWaiting(m.err)
	m.wakeDrain()
}

// failWaiting fails what cannot go on without a lane. The caller holds mu.
func (m *mux) failWaiting(err error) {
	for {
		k, ok := m.calls.pop()
		if !ok {
			break
		}
		k.end(err)
	}
	for t := range m.transfers {
		if len(t.file.handles) == 0 || m.err != nil {
			t.file.fail(err)
			t.fail(err)
		}
	}
}

// path returns what is known of the way to the server now.
func (m *mux) path() Path {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Path{
		Conns: len(m.pool.conns), Lanes: m.pool.open(), Window: m.link.Window(), InFlight: m.pool.outstanding(),
		RoundTrip: m.link.RoundTrip(), Rate: m.link.Rate(), ReadBytes: m.server.chunk[0], WriteBytes: m.server.chunk[1],
	}
}
