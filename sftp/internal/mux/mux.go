// Package mux carries the requests of an SFTP client to the server, over as many lanes
// of as many connections as help, and the answers back. A lane is an SSH channel with
// one SFTP session.
//
// It knows three things that need an answer: a [Call] is a request without data, a
// [File] is open on one lane or on several, and a [Transfer] moves a range of a file,
// as its plan (package pipeline) says. Where the data goes to and comes from is the
// matter of the client above: see [Sink] and [Source].
//
// That client shares the lock of the mux, since what it reads ahead and writes behind
// changes with the answers. Methods of which it has to hold the lock say so. They are
// those of a transfer, what makes one progress ([Mux.Begin], [Mux.GrantRoom],
// [Grant.Send]), and those that send and do not wait ([Mux.Submit], [Mux.CloseHandle]).
// All others take the lock themselves.
package mux

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A Mux has the connections to one server, and what is under way on them.
//
// Its mutex guards its lanes, its transfers and the files that they move as well:
// one lost lane changes them all.
type Mux struct {
	config Config
	Server *Server

	ctx  context.Context // ends with the mux
	stop context.CancelCauseFunc
	work sync.WaitGroup // the goroutines of the mux

	mu         sync.Mutex
	link       *pipeline.Link         // mu
	ops        *pipeline.Ops          // mu
	table      requestTable           // mu
	pool       lanePool               // mu
	careful    bool                   // mu: how channels are opened, see lane.handshake
	guess      string                 // mu: the handle that the server gives out first; "" if it is not known
	queue      Queue[*Transfer]       // mu: those that may have something to ask
	calls      Queue[*Call]           // mu: those not sent yet
	transfers  map[*Transfer]struct{} // mu
	reads      int                    // mu: of these, those that read
	prefetched *prefetched            // mu: nil if there is none, or it was taken
	ready      chan struct{}          // closed when New is done
	closing    int                    // mu: handles whose CLOSE nobody waits for, and that is not answered
	drained    chan struct{}          // mu: closed when Drain should look again; nil if nothing waits
	last       error                  // mu: why a lane ended last
	losses     losses                 // mu
	err        error                  // mu: why no more can be done
}

// minCalls is how many requests that carry no data may be in flight before it
// is known how many make sense.
const minCalls = 128

// New begins with one lane on one connection. If that is owned, it is closed
// with the mux, or if there is an error. Over a stream a deadline of ctx replaces the
// time for a handshake: there may be a login in it, with questions to a user.
func New(ctx context.Context, first Carrier, owned bool, config Config) (*Mux, error) {
	m := &Mux{config: config, transfers: map[*Transfer]struct{}{}, ready: make(chan struct{})}
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	conn := &connection{carrier: first, owned: owned, limit: config.Lanes, opening: 1}
	m.pool = lanePool{canConnect: config.Connect != nil, maxConns: config.Conns, lanesEach: config.Lanes, streams: conn.isStream(), seed: config.Trip, conns: []*connection{conn}}
	m.expect(config.Expect)
	if _, limited := ctx.Deadline(); !limited || !conn.isStream() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, config.Timeout, ErrHandshakeTime)
		defer cancel()
	}
	l, g, err := m.firstLane(ctx, conn)
	if err != nil {
		m.mu.Lock()
		m.fail(err)
		m.mu.Unlock()
		m.stop(err)
		if owned {
			_ = first.Close()
		}
		close(m.ready)
		m.work.Wait()
		return nil, err
	}
	defer close(m.ready)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Server = newServer(g, first, config)
	limits := pipeline.Limits{MaxBytes: config.Memory, Lanes: config.Lanes * config.Conns}
	if n := config.Requests; n > 0 {
		limits.Requests = n
		limits.MaxBytes = min(config.Memory, n*max(m.Server.ReadChunk, m.Server.WriteChunk))
	}
	m.link = pipeline.NewLink(limits)
	m.ops = pipeline.NewOps(pipeline.OpsLimits{Min: minCalls})
	m.pool.link, m.pool.ops = m.link, m.ops
	m.pool.setFloor(m.reads)
	if m.prefetched = g.prefetched; m.prefetched != nil {
		m.learnHandle(m.prefetched.handle)
	}
	m.startLane(l)
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
	Requests   bool // some are to be answered or sent
	Closing    int  // CLOSEs that nobody waits for, and that are not answered
	Unsent     bool // there are requests without data that were not sent
	LastLoss   error
	Guesses    bool   // the server gives out handles in an order that is known
	Prefetched []byte // what came with the handshake; nil if nothing did, or it was taken
}

// State returns what is under way now.
func (m *Mux) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := State{
		Conns: len(m.pool.conns), Lanes: m.pool.open(), Window: m.link.Window(), InFlight: m.pool.outstanding(),
		RoundTrip: m.link.RoundTrip(), Rate: m.link.Rate(),
		Transfers: len(m.transfers), Requests: m.table.data+m.calls.Len()+m.ops.Outstanding() > 0,
		Closing: m.closing, Unsent: !m.requestsSent(), LastLoss: m.last, Guesses: m.guess != "",
	}
	for _, l := range m.pool.lanes {
		s.Requests = s.Requests || l != nil && l.pending > 0
	}
	if m.prefetched != nil {
		s.Prefetched = m.prefetched.data
	}
	return s
}

// RoundTrip returns what is known of the round trip to the server; 0 before the first.
func (m *Mux) RoundTrip() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pool.trip()
}

// Context ends with the mux.
func (m *Mux) Context() context.Context { return m.ctx }

// Window returns how many bytes may be in flight. The caller holds the lock.
func (m *Mux) Window() int { return m.link.Window() }

// Lock takes the lock of the mux. Under it, nothing changes in its lanes, transfers
// and files.
func (m *Mux) Lock() { m.mu.Lock() }

// Unlock gives it back.
func (m *Mux) Unlock() { m.mu.Unlock() }

// A Server is what a server has announced. It does not change.
type Server struct {
	Ext                   wire.Extensions
	limits                wire.Limits
	ReadChunk, WriteChunk int  // bytes a READ may ask for, and a WRITE may carry
	Draft                 bool // the server takes SYMLINK in the draft's order

	// InOrder is set if the server is known to carry out the requests of a session in
	// order, as section 6.1 of the draft demands: it names itself as one of orderedServers,
	// and announces its limits, as these do. Among the others are servers made with package
	// github.com/pkg/sftp, which may carry out an FSETSTAT before the WRITE that came
	// first: it would change the time that was set. One that carries out a CLOSE first
	// would lose the WRITE.
	InOrder bool
}

// orderedServers are in the versions of servers that carry out requests in order. sshd may
// have another program speak SFTP, so that its version alone does not show it.
var orderedServers = []string{"OpenSSH", "haul"}

// newServer returns what a server has announced.
func newServer(g announcement, over Carrier, config Config) *Server {
	s := &Server{Ext: g.ext, limits: g.limits, InOrder: g.ext.Has(wire.ExtLimits)}
	if c, ok := over.(sshConn); ok {
		version := string(c.client.ServerVersion())
		s.Draft = wire.ServerSwapsLinks(version, string(c.client.ClientVersion()))
		s.InOrder = s.InOrder && slices.ContainsFunc(orderedServers, func(name string) bool { return strings.Contains(version, name) })
	}
	s.ReadChunk = chunkFor(g.limits.Read, g.limits.Packet, config)
	s.WriteChunk = chunkFor(g.limits.Write, g.limits.Packet, config)
	return s
}

// OpenFiles returns how many files and directories a session may have open, or 0 if
// the server does not say.
func (s *Server) OpenFiles() int { return int(min(s.limits.Handles, math.MaxInt32)) }

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

// A Config says what a mux may use. Its fields are those of the client's Config,
// with no zeros left, and two more.
type Config struct {
	Conns, Lanes, Memory   int
	Requests, RequestBytes int
	First                  string
	Trip                   time.Duration
	Expect                 int64
	Timeout, Stall         time.Duration

	// Connect makes a further connection, which the mux closes; nil if no other can
	// be made.
	Connect func(context.Context) (Carrier, error)

	// Refused makes the error that callers see of one that may be a *wire.StatusError.
	Refused func(error) error
}

// packetRoom is what a packet has besides its data, at most, as OpenSSH reckons it.
const packetRoom = 1 << 10
