package tcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/drive"
	"github.com/haul-project/haul/tcp/internal/sources"
)

// The defaults for fields of a Server that are zero.
const (
	defaultGrace            = 10 * time.Second
	defaultHandshakeTimeout = 10 * time.Second
	defaultMaxHandshakes    = 512
)

// defaultDrainTime is how long an accepted connection may still wait for a call of Accept once the
// Listener is closed, and how long its client may still wait before it begins a TLS handshake once
// the server is ending.
const defaultDrainTime = time.Second

// A Server accepts and serves connections. Either Handle or Driver must be set; the zero values of
// all other fields are useful. Fields must not change once the server serves.
type Server struct {
	// Handle serves one connection, which is closed when Handle returns. c is a *Conn, or with TLS
	// a *tls.Conn that uses one. When the server ends, ctx is cancelled only after the time Grace;
	// [Draining] reports earlier that the server begins to end. If Handle panics, the panic is
	// logged and counted, and only that connection ends.
	Handle func(ctx context.Context, c net.Conn)

	// Driver, if set, serves the connections in place of Handle. It is an events.Handler of
	// https://pkg.go.dev/github.com/haul-project/haul/tcp/events, for programs that do not wait for
	// anything else before they answer.
	Driver drive.Driver

	// TLS, if set, makes connections begin with a TLS handshake. It must have a certificate.
	// Certificates of package certs can be replaced while the server runs.
	TLS *tls.Config

	// Options are used by ListenAndServe when it opens the sockets.
	Options Options

	// Limits. While there are MaxConns connections, no more are accepted: further connections wait
	// in the kernel's queue. With Refuse, further connections are accepted and reset at once, so
	// that their clients fail without waiting. If a source already has MaxConnsPerSource
	// connections, further connections of that source are reset. A source is an IPv4 address, or an
	// IPv6 network of 64 bits.
	MaxConns          int // 0 means no limit
	MaxConnsPerSource int // 0 means no limit
	// MaxHandshakes limits concurrent TLS handshakes, not counting those that wait for their
	// client; further ones wait. 0 means 512.
	MaxHandshakes int
	Refuse        bool

	// Timeouts. They are accurate to a sixteenth of the shortest one, but not to less than a
	// millisecond.
	HandshakeTimeout time.Duration // for the PROXY header, and for TLS; 0 means 10 s
	// FirstByteTimeout is how long the client may take to send its first byte. It is not used after
	// a TLS handshake; 0 means no limit.
	FirstByteTimeout time.Duration
	IdleTimeout      time.Duration // how long a call may wait while no byte is received or sent; 0 means no limit

	// Proxies are the networks of proxies whose connections begin with a PROXY header (version 1 or
	// 2), which contains the client's address. To trust a proxy on the same machine that connects
	// from 127.0.0.1 or ::1, list these addresses; all other programs on that machine are then
	// trusted too.
	Proxies []netip.Prefix

	// UnixProxies treats all peers on unix sockets as proxies, because they have no address that
	// Proxies could contain. Only the permissions of the socket's file, or of its directory, keep
	// out peers other than the proxy; an abstract name ("@") has no permissions. Without
	// UnixProxies, all bytes from a peer on a unix socket are data.
	UnixProxies bool

	// Deny and Allow decide which clients may connect, by the address of the connection or the one
	// in its PROXY header, before any byte of TLS is read. Addresses in Deny are refused. If Allow
	// is not empty, all addresses outside it are refused too. A peer on a unix socket is in no
	// network. Refused connections are reset.
	Allow, Deny []netip.Prefix

	// Refused, if set, is called for each connection that is refused by Allow, Deny or a limit. The
	// reason is ErrDenied, ErrSourceFull or ErrFull. Refused must return at once, because no other
	// connection is accepted meanwhile. A panic is logged and counted.
	Refused func(from net.Addr, why error)

	// SplitALPN names a protocol that the TLS handshake may agree on (RFC 7301), such as
	// "h2". A Listener then returns connections with that protocol only through
	// [Listener.Split].
	SplitALPN string

	// FirstBytes, if set, is called with the bytes that the first Read of a connection
	// returns, before that Read returns. It is not called with TLS. It must not keep b.
	FirstBytes func(c *Conn, b []byte)

	// Grace is how long handlers may continue when the server ends. 0 means 10 s, and a negative
	// value means that there is no limit.
	Grace time.Duration

	// BadHandshake, if set, is called for each connection whose PROXY header or TLS handshake
	// failed. For the errors see ErrProxyHeader and [tls.RecordHeaderError]; for a port scan the
	// error is io.EOF. It is called on the connection's goroutine, so strangers can cause many
	// concurrent calls. c is closed when it returns. It is not called for StartTLS, nor for
	// connections that ended because the server ended.
	BadHandshake func(c *Conn, err error)

	// Log receives the errors that no call returns: panics, and failures to accept. nil means
	// slog.Default.
	Log *slog.Logger

	drainTime time.Duration // replaces defaultDrainTime in tests; 0 means defaultDrainTime
	shared    shared
	runs      runs
}

// A shared is the state that all runs of a server share.
type shared struct {
	once       sync.Once     // initializes the other fields
	places     chan struct{} // an element for each connection; its capacity is MaxConns. nil without MaxConns
	sources    *sources.Table
	handshakes chan struct{} // an element for each TLS handshake that is computing; its capacity is MaxHandshakes
	counts     conns.Counts
}

// runs are the calls of Serve that have not returned, and the Listeners that still have connections.
type runs struct {
	mu     sync.Mutex
	all    map[*run]bool // the runs that have not ended. Guarded by mu
	halted bool          // Halt was called. Guarded by mu
	past   uint64        // number of connections that earlier runs accepted. Guarded by mu
}

// Counters are the figures of a server: the first two are current values, and the others are totals
// since the server began.
type Counters struct {
	Conns      int // current connections
	Handshakes int // current TLS handshakes, not counting those that wait for their client

	Accepted      uint64
	Refused       uint64 // connections refused by Allow or Deny, by MaxConns with Refuse, or by MaxConnsPerSource
	TimedOut      uint64 // connections ended because they exceeded a timeout
	AcceptErrors  uint64 // failures to accept, for example for lack of descriptors
	BadHandshakes uint64 // PROXY headers and TLS handshakes that failed
	Panics        uint64 // panics of handlers
	Cut           uint64 // connections that the server ended after the time Grace, or because of Halt
}

// check returns an error if a setting is invalid or the server was halted.
func (s *Server) check() error {
	if s.runs.isHalted() {
		return fmt.Errorf("tcp: the server is halted: %w", net.ErrClosed)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"MaxConns", int64(s.MaxConns)}, {"MaxConnsPerSource", int64(s.MaxConnsPerSource)}, {"MaxHandshakes", int64(s.MaxHandshakes)},
		{"HandshakeTimeout", int64(s.HandshakeTimeout)}, {"FirstByteTimeout", int64(s.FirstByteTimeout)}, {"IdleTimeout", int64(s.IdleTimeout)},
	} {
		if n.value < 0 {
			return fmt.Errorf("tcp: %s is negative", n.name)
		}
	}
	if t := s.TLS; t != nil && len(t.Certificates) == 0 && t.GetCertificate == nil && t.GetConfigForClient == nil {
		return errors.New("tcp: TLS has no certificate")
	}
	if s.Driver != nil {
		return s.Driver.Check()
	}
	return nil
}

// init initializes the state that all runs share.
func (s *Server) init() {
	s.shared.once.Do(func() {
		if s.MaxConns > 0 {
			s.shared.places = make(chan struct{}, s.MaxConns)
		}
		if s.MaxConnsPerSource > 0 {
			s.shared.sources = sources.New(s.MaxConnsPerSource)
		}
		s.shared.handshakes = make(chan struct{}, cmp.Or(s.MaxHandshakes, defaultMaxHandshakes))
	})
}

// add adds a run. If Halt was called after the run was created, add halts the run.
func (rs *runs) add(r *run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.all == nil {
		rs.all = map[*run]bool{}
	}
	rs.all[r] = true
	if rs.halted {
		go r.halt()
	}
}

// remove removes a run that has ended. accepted is the number of connections that the run accepted;
// remove adds it to past, so that totals still counts these connections.
func (rs *runs) remove(r *run, accepted uint64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.all, r)
	rs.past += accepted
}

// list returns the runs at this moment, in no particular order.
func (rs *runs) list() (all []*run) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Collect(maps.Keys(rs.all))
}

// isHalted reports whether Halt was called.
func (rs *runs) isHalted() bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.halted
}

// halt halts all runs, including runs that are added later.
func (rs *runs) halt() {
	rs.mu.Lock()
	rs.halted = true
	rs.mu.Unlock()
	for _, r := range rs.list() {
		r.halt()
	}
}

// totals returns the number of live connections, and the number of connections accepted so far.
func (rs *runs) totals() (live int, accepted uint64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	accepted = rs.past
	for r := range rs.all {
		n, m := r.totals()
		live += n
		accepted += m
	}
	return live, accepted
}
