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

// Defaults of a Server.
const (
	defaultGrace            = 10 * time.Second
	defaultHandshakeTimeout = 10 * time.Second
	defaultMaxHandshakes    = 512
)

// defaultDrainTime is how long an accepted connection waits for a call of Accept once the Listener
// is closed, and for its client to begin a TLS handshake once the server ends.
const defaultDrainTime = time.Second

// A Server serves connections. Handle or Driver must be set; the zero value of every other field is
// useful. Fields must not change once it serves.
type Server struct {
	// Handle serves one connection, which is closed when it returns. c is a *Conn, or with TLS a
	// *tls.Conn over one. ctx ends when the Grace is over at the server's end; see also [Draining].
	// A panic of Handle is logged and counted, and ends only that connection.
	Handle func(ctx context.Context, c net.Conn)

	// Driver, if set, serves the connections in place of Handle. It is an events.Handler of
	// https://pkg.go.dev/github.com/haul-project/haul/tcp/events, for programs that never wait for
	// something else before they answer.
	Driver drive.Driver

	// TLS, if set, makes connections begin with TLS. It must have a certificate. The certificates
	// of package certs can be replaced while the server runs.
	TLS *tls.Config

	// Options apply to the sockets of ListenAndServe.
	Options Options

	// Limits. At MaxConns, no connection is accepted until one ends: the others wait in the
	// kernel's queue. With Refuse they are accepted and reset, so that clients fail at once.
	// Connections of one source above MaxConnsPerSource are reset. A source is an IPv4 address, or
	// an IPv6 network of 64 bits.
	MaxConns          int // 0 means no limit
	MaxConnsPerSource int // 0 means no limit
	MaxHandshakes     int // TLS handshakes at a time, not counting those that wait for their client; others wait. 0 means 512
	Refuse            bool

	// Times. They are accurate to a sixteenth of the shortest one, or a millisecond.
	HandshakeTimeout time.Duration // for the PROXY header, and for TLS; 0 means 10 s
	FirstByteTimeout time.Duration // until the client has sent something; not used after a TLS handshake. 0 means no limit
	IdleTimeout      time.Duration // how long a call may wait while no byte is moved either way; 0 means no limit

	// Proxies are the networks of proxies whose connections begin with a PROXY header (version 1 or
	// 2), which names the client. To trust a proxy on the same machine that connects from 127.0.0.1
	// or ::1, list these addresses; all other programs on that machine are then trusted too.
	Proxies []netip.Prefix

	// UnixProxies treats all peers on unix sockets as proxies; they have no address that a network
	// could contain. Only the permissions of the socket's file, or of its directory, keep out peers
	// other than the proxy; an abstract name ("@") has no permissions. Without UnixProxies, all
	// bytes from a peer on a unix socket are data.
	UnixProxies bool

	// Deny and Allow decide who may connect, by the address of the connection or of its PROXY
	// header, before a byte of TLS is read. Networks in Deny are refused, and if Allow is not
	// empty, so are all networks that it does not contain. A peer on a unix socket is in no
	// network. Refused connections are reset.
	Allow, Deny []netip.Prefix

	// Refused, if set, is called for each connection that Allow or Deny or a limit refuses,
	// with ErrDenied, ErrSourceFull or ErrFull. It must return at once: no other connection
	// is accepted meanwhile. A panic is logged and counted.
	Refused func(from net.Addr, why error)

	// SplitALPN names a protocol that the TLS handshake may agree on (RFC 7301), such as
	// "h2". A Listener then returns connections with that protocol only through
	// [Listener.Split].
	SplitALPN string

	// FirstBytes, if set, is called with the bytes that the first Read of a connection
	// returns, before that Read returns. It is not called with TLS. It must not keep b.
	FirstBytes func(c *Conn, b []byte)

	// Grace is how long handlers may continue when the server ends. 0 means 10 s, and below 0 means
	// without limit.
	Grace time.Duration

	// BadHandshake, if set, is called for each connection whose PROXY header or TLS handshake
	// failed: see ErrProxyHeader and [tls.RecordHeaderError], and io.EOF, the error of a port scan.
	// It is called on the connection's goroutine, so strangers can cause many calls at once. c is
	// closed when it returns. It is not called for StartTLS, nor for connections that the server's
	// end has ended.
	BadHandshake func(c *Conn, err error)

	// Log receives the errors that no call returns: panics, and failures to accept. nil means
	// slog.Default.
	Log *slog.Logger

	drainTime time.Duration // 0 means defaultDrainTime
	shared    shared
	runs      runs
}

// A shared is the state that the runs of a server share.
type shared struct {
	once       sync.Once     // initializes the rest
	places     chan struct{} // one for each connection; nil without MaxConns
	sources    *sources.Table
	handshakes chan struct{} // one for each handshake
	counts     conns.Counts
}

// runs are the calls of Serve that have not returned.
type runs struct {
	mu     sync.Mutex
	all    map[*run]bool // mu
	halted bool          // mu: Halt was called
	past   uint64        // mu: connections accepted by earlier runs
}

// Counters counts what a server has done and is doing.
type Counters struct {
	Conns      int // current connections
	Handshakes int // current TLS handshakes, not counting those that wait for their client

	Accepted      uint64
	Refused       uint64 // connections refused by Allow or Deny, by MaxConns with Refuse, or by MaxConnsPerSource
	TimedOut      uint64 // connections ended by one of the timeouts
	AcceptErrors  uint64 // failures to accept, for example for lack of descriptors
	BadHandshakes uint64 // failed TLS handshakes and PROXY headers
	Panics        uint64 // panics of handlers
	Cut           uint64 // connections ended because the server ended
}

// check returns an error for invalid settings, or a halted server.
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

// add adds a run. If Halt was called in between, the run ends soon.
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

// remove removes a run that has accepted the given number of connections.
func (rs *runs) remove(r *run, accepted uint64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.all, r)
	rs.past += accepted
}

// list returns the runs.
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

// halt ends all runs, and any that are added later.
func (rs *runs) halt() {
	rs.mu.Lock()
	rs.halted = true
	rs.mu.Unlock()
	for _, r := range rs.list() {
		r.halt()
	}
}

// totals returns the number of live connections, and the number of all connections so far.
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
