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

// defaultDrainTime is how long an accepted connection waits for a call of Accept once
// the Listener is closed, and for its client to begin a TLS handshake once the server
// ends.
const defaultDrainTime = time.Second

// A Server serves connections. Handle or OnData must be set; the zero value of every other
// field is useful. Fields must not change once it serves.
type Server struct {
	// Handle serves one connection, which is closed when it returns. c is a *Conn,
	// or with TLS a *tls.Conn over one. ctx ends when the Grace is over at the
	// server's end; see also [Draining]. A panic of Handle is logged and counted, and
	// ends that connection only.
	Handle func(ctx context.Context, c net.Conn)

	// Driver, if set, serves the connections in place of Handle: an events.Handler of
	// https://pkg.go.dev/github.com/haul-project/haul/tcp/events, for programs that never
	// wait for something else before they answer.
	Driver drive.Driver

	// TLS, if set, makes connections begin with TLS. It must have a certificate; those
	// of package certs can be replaced while the server runs.
	TLS *tls.Config

	// Options are those of the sockets of ListenAndServe.
	Options Options

	// Limits. At MaxConns no connection is accepted until one ends: the others wait in
	// the kernel's queue. With Refuse they are accepted and reset, so that clients fail
	// at once. Connections of one source above MaxConnsPerSource are reset. A source is
	// an IPv4 address, or an IPv6 network of 64 bits.
	MaxConns          int // 0 means no limit
	MaxConnsPerSource int // 0 means no limit
	MaxHandshakes     int // TLS handshakes at a time, not counting those that wait for their client; others wait. 0 means 512
	Refuse            bool

	// Times. They are kept to a sixteenth of the shortest, or a millisecond.
	HandshakeTimeout time.Duration // for the PROXY header, and for TLS; 0 means 10 s
	FirstByteTimeout time.Duration // until the client has sent something; with TLS it always has. 0 means no limit
	IdleTimeout      time.Duration // how long a call may wait while nothing is moved either way; 0 means no limit

	// Proxies are the networks of proxies whose connections begin with a PROXY header
	// (version 1 or 2), which names the client. To trust a proxy on the same machine that
	// connects from 127.0.0.1 or ::1, list these: all other programs on that machine are
	// then trusted too.
	Proxies []netip.Prefix

	// UnixProxies makes proxies of all peers on unix sockets, which have no address that
	// a network could contain. Only the permissions of the socket's file, or of its
	// directory, keep out others than the proxy; an abstract name ("@") has none. Without
	// UnixProxies, all bytes of a peer on a unix socket are data.
	UnixProxies bool

	// Deny and Allow decide who may connect, by the address that the connection or its
	// PROXY header has, before a byte of TLS is read: all networks but those of Deny,
	// and if Allow is not empty, only its own. A peer on a unix socket is in no network.
	// Connections of others are reset.
	Allow, Deny []netip.Prefix

	// Refused, if set, is called for each connection that Allow or Deny or a limit refuses,
	// with ErrDenied, ErrSourceFull or ErrFull. It must return at once: no other connection
	// is accepted meanwhile. A panic is logged and counted.
	Refused func(from net.Addr, why error)

	// SplitALPN names a protocol that the handshake of TLS may agree on (RFC 7301), such
	// as "h2". A Listener then gives out its connections by [Listener.Split] only.
	SplitALPN string

	// FirstBytes, if set, is called with what the first Read of a connection returns,
	// before that returns. It is not called with TLS. It must not keep b.
	FirstBytes func(c *Conn, b []byte)

	// Grace is how long handlers may continue when the server ends; 0 means 10 s, and below
	// 0 without limit.
	Grace time.Duration

	// BadHandshake, if set, is called for each connection whose PROXY header or TLS
	// handshake failed: see ErrProxyHeader and [tls.RecordHeaderError], and io.EOF, the
	// error of a port scan. It is called on the connection's goroutine, so strangers can
	// cause many calls at a time; c is closed when it returns. It is not called for
	// StartTLS, nor for connections that the end of the server ended.
	BadHandshake func(c *Conn, err error)

	// Log gets the errors that no call returns: panics, and failures to accept. Nil means
	// slog.Default.
	Log *slog.Logger

	drainTime time.Duration // 0 means defaultDrainTime
	shared    shared
	runs      runs
}

// A shared is what the runs of a server share.
type shared struct {
	once       sync.Once     // makes the rest
	places     chan struct{} // one for each connection; nil without MaxConns
	sources    *sources.Table
	handshakes chan struct{} // a place for each
	counts     conns.Counts
}

// runs are the calls of Serve that have not returned.
type runs struct {
	mu     sync.Mutex
	all    map[*run]bool // mu
	halted bool          // mu: by Halt
	past   uint64        // mu: connections accepted by others
}

// Counters counts what a server has done and is doing.
type Counters struct {
	Conns      int // now
	Handshakes int // of TLS, now, not counting those that wait for their client

	Accepted      uint64
	Refused       uint64 // by Allow or Deny, by MaxConns with Refuse, or by MaxConnsPerSource
	TimedOut      uint64 // ended by one of the timeouts
	AcceptErrors  uint64 // such as a lack of descriptors
	BadHandshakes uint64 // TLS or PROXY headers that failed
	Panics        uint64 // of handlers
	Cut           uint64 // ended because the server did
}

// check reports invalid settings, and a halted server.
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

// init makes what the connections of all addresses share.
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

// remove removes a run that has accepted some connections.
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

// halt ends all runs, and those that are added later.
func (rs *runs) halt() {
	rs.mu.Lock()
	rs.halted = true
	rs.mu.Unlock()
	for _, r := range rs.list() {
		r.halt()
	}
}

// totals returns how many connections there are, and have been.
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
