package tcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/tcp/internal/sources"
)

// Defaults of a Server.
const (
	DefaultGrace            = 10 * time.Second
	DefaultHandshakeTimeout = 10 * time.Second
	DefaultMaxHandshakes    = 512
)

// defaultLastCall is how long an accepted connection waits for a call of Accept once
// the Listener is closed, and for its client to begin a TLS handshake once the server
// ends.
const defaultLastCall = time.Second

// A Server serves connections. Handle or OnData must be set; the zero value of every other
// field is useful. Fields must not change once it serves.
type Server struct {
	// Handle serves one connection, which is closed when it returns. c is a *Conn,
	// or with TLS a *tls.Conn over one. ctx ends when the Grace is over at the
	// server's end; see also [Draining]. A panic of Handle is logged and counted, and
	// ends that connection only.
	Handle func(ctx context.Context, c net.Conn)

	// OnData, if set, serves connections in place of Handle, for programs that never wait
	// for something else before they answer. On Linux a loop for each listening socket calls
	// it for all connections of that socket, one call after the other; no connection has a
	// goroutine, and an idle one takes less than a kilobyte. Calls of several loops run at
	// the same time. A call that waits, or computes for long, delays all connections
	// of its loop: such programs need Handle.
	//
	// data are the bytes that were received and not used yet. OnData returns how many of
	// them it has used; the others begin the data of the next call. data is valid until
	// OnData returns. If it used some and others are left, it is called again at once, so it
	// may answer one request a call. It is called first when the connection opens, without
	// data, so that it can greet; and last when the client has ended sending: see
	// [EventConn.Ended]. A panic is logged and counted, and ends that connection only.
	//
	// With TLS, and on other systems, each connection has a goroutine that calls OnData.
	OnData func(c *EventConn, data []byte) (used int)

	// OnEnd, if set, is called once for each connection that OnData was called for, when it
	// ends: with nil if the client or Close ended it, and else with the reason. c is not
	// valid any more when it returns.
	OnEnd func(c *EventConn, err error)

	// A connection ends with ErrHeld if OnData uses none of MaxHeld bytes, and with ErrUnsent
	// if more than MaxUnsent bytes that it wrote wait for the client to read.
	MaxHeld   int // 0 means DefaultMaxHeld
	MaxUnsent int // 0 means DefaultMaxUnsent

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
	MaxHandshakes     int // TLS handshakes at a time, not counting those that wait for their client; others wait. 0 means DefaultMaxHandshakes
	Refuse            bool

	// Times. They are kept to a sixteenth of the shortest, or a millisecond.
	HandshakeTimeout time.Duration // for the PROXY header, and for TLS; 0 means DefaultHandshakeTimeout
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

	// Grace is how long handlers may continue when the server ends; 0 means
	// DefaultGrace, and below 0 without limit.
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

	lastCall   time.Duration // 0 means defaultLastCall
	once       sync.Once
	places     chan struct{} // one for each connection; nil without MaxConns
	sources    *sources.Table
	handshakes chan struct{} // a place for each
	counts     counts

	mu     sync.Mutex
	runs   map[*run]bool // mu: those that serve
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
	s.mu.Lock()
	halted := s.halted
	s.mu.Unlock()
	if halted {
		return fmt.Errorf("tcp: the server is halted: %w", net.ErrClosed)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"MaxConns", int64(s.MaxConns)}, {"MaxConnsPerSource", int64(s.MaxConnsPerSource)}, {"MaxHandshakes", int64(s.MaxHandshakes)},
		{"MaxHeld", int64(s.MaxHeld)}, {"MaxUnsent", int64(s.MaxUnsent)},
		{"HandshakeTimeout", int64(s.HandshakeTimeout)}, {"FirstByteTimeout", int64(s.FirstByteTimeout)}, {"IdleTimeout", int64(s.IdleTimeout)},
	} {
		if n.value < 0 {
			return fmt.Errorf("tcp: %s is negative", n.name)
		}
	}
	if t := s.TLS; t != nil && len(t.Certificates) == 0 && t.GetCertificate == nil && t.GetConfigForClient == nil {
		return errors.New("tcp: TLS has no certificate")
	}
	return nil
}

func (s *Server) hasProxies() bool { return len(s.Proxies) > 0 || s.UnixProxies }

// init makes what the connections of all addresses share.
func (s *Server) init() {
	if s.MaxConns > 0 {
		s.places = make(chan struct{}, s.MaxConns)
	}
	if s.MaxConnsPerSource > 0 {
		s.sources = sources.New(s.MaxConnsPerSource)
	}
	s.handshakes = make(chan struct{}, cmp.Or(s.MaxHandshakes, DefaultMaxHandshakes))
}

func (s *Server) log() *slog.Logger {
	if s.Log != nil {
		return s.Log
	}
	return slog.Default()
}

// allows reports whether Allow and Deny let an address connect.
func (s *Server) allows(a netip.Addr) bool {
	return !inAny(s.Deny, a) && (len(s.Allow) == 0 || inAny(s.Allow, a))
}

// inAny reports whether an address is in one of some networks.
func inAny(networks []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}
