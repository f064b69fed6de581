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
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/tcp/internal/proxy"
)

// A gate lets the connections of one run in: it keeps the limits, reads PROXY headers,
// does the handshakes of TLS, and calls the handler.
type gate struct {
	shared
	s *Server

	// Of a Listener: what takes a connection instead of Handle, and a place for each
	// connection that waits for Accept.
	hand    func(*Conn)
	pending chan struct{}

	onPlace func() // called when a place for a connection is free; may be nil

	ctx      context.Context // of the handlers
	cancel   context.CancelCauseFunc
	draining chan struct{} // closed when the end begins
	loggedAt atomic.Int64
}

// gateKey is what a handler's context has its gate by.
type gateKey struct{}

// Draining returns a channel that is closed when the server begins to end. ctx is the
// handler's; for other contexts it returns nil. A handler that serves request after
// request should then end after the current one.
func Draining(ctx context.Context) <-chan struct{} {
	if g, ok := ctx.Value(gateKey{}).(*gate); ok {
		return g.draining
	}
	return nil
}

// admit decides whether an accepted connection is served. Without Refuse it waits for a
// place.
func (g *gate) admit(c *conn) bool {
	if !g.takePlace() {
		return g.refuse(c, c.sysRemoteAddr(), ErrFull)
	}
	return g.countSource(c)
}

// countSource counts a connection that has a place for its source, or refuses it. The
// clients of a proxy are counted later.
func (g *gate) countSource(c *conn) bool {
	c.source = netip.Addr{} // that of the last connection
	if g.s.sources != nil {
		from := c.sysSource()
		if g.isProxy(from) {
			return true
		}
		if !g.s.sources.Enter(from) {
			g.left(netip.Addr{})
			return g.refuse(c, c.sysRemoteAddr(), ErrSourceFull)
		}
		c.source = from
	}
	return true
}

// takePlace takes one of the places for connections. Without Refuse it waits for one.
func (g *gate) takePlace() bool {
	if g.s.places == nil {
		return true
	}
	select {
	case g.s.places <- struct{}{}:
		return true
	default:
	}
	if g.s.Refuse {
		return false
	}
	select {
	case g.s.places <- struct{}{}:
		return true
	case <-g.ctx.Done():
		return false
	}
}

// refuse counts and reports a refusal, and makes the connection's close a reset.
func (g *gate) refuse(c *conn, from net.Addr, why error) bool {
	g.s.counts.refused.Add(1)
	_ = c.sysLinger(0)
	if report := g.s.Refused; report != nil {
		defer g.s.caught(func() net.Addr { return from }) // it would end what accepts
		report(from, why)
	}
	return false
}

// left gives back what admit took.
func (g *gate) left(source netip.Addr) {
	if g.s.places != nil {
		<-g.s.places
		if g.onPlace != nil {
			g.onPlace()
		}
	}
	if source.IsValid() {
		g.s.sources.Leave(source)
	}
}

// isProxy reports whether connections of a source begin with a PROXY header. A source
// that is not valid is a peer on a unix socket.
func (g *gate) isProxy(a netip.Addr) bool {
	if !a.IsValid() {
		return g.s.UnixProxies
	}
	return inAny(g.s.Proxies, a)
}

// awaitAccept waits while too many connections of a Listener wait for Accept.
func (g *gate) awaitAccept() {
	if g.pending != nil {
		g.pending <- struct{}{}
		<-g.pending
	}
}

// serve serves a connection, and ends it.
func (g *gate) serve(c *conn, h *Conn) {
	if g.hand != nil {
		g.hand(h)
		return
	}
	defer g.finish(h, nil)
	switch nc := g.open(c, h); {
	case nc == nil:
	case g.s.OnData != nil:
		g.s.serveCalls(nc, h)
	default:
		g.s.Handle(g.ctx, nc)
	}
}

// open does what comes before the handler. If that fails, it counts the failure and
// returns nil.
func (g *gate) open(c *conn, h *Conn) net.Conn {
	nc, err := g.opened(c, h)
	if err != nil {
		g.reject(c, h, err)
		return nil
	}
	return nc
}

// reject counts and reports why a connection is not served.
func (g *gate) reject(c *conn, h *Conn, err error) {
	defer g.s.caught(h.RemoteAddr)
	switch {
	case errors.Is(err, ErrSourceFull), errors.Is(err, ErrDenied):
		g.refuse(c, h.RemoteAddr(), err)
	default:
		g.s.counts.badHandshakes.Add(1)
		if report := g.s.BadHandshake; report != nil && !errors.Is(err, ErrDraining) && !errors.Is(err, ErrCut) {
			report(h, err)
		}
	}
}

// opened waits for the PROXY header and for TLS. A connection that Allow or Deny refuses,
// or of a client that has too many, ends after the header.
func (g *gate) opened(c *conn, h *Conn) (net.Conn, error) {
	var client netip.Addr // that a proxy names
	if g.s.hasProxies() && g.isProxy(c.sysSource()) {
		var err error
		if client, err = g.readHeader(c, h); err != nil {
			return nil, err
		}
	}
	if err := g.checkClient(c, client); err != nil {
		return nil, err
	}
	if g.s.TLS != nil {
		return g.handshake(h, g.s.TLS)
	}
	c.enter(listening)
	return h, nil
}

// checkClient holds a connection against Allow and Deny, and counts the client that a
// proxy names, if one does.
func (g *gate) checkClient(c *conn, client netip.Addr) error {
	if s := g.s; len(s.Allow)+len(s.Deny) > 0 && !s.allows(cmp.Or(client, c.sysSource())) {
		return ErrDenied
	}
	if g.s.sources != nil && client.IsValid() {
		if !g.s.sources.Enter(client) {
			return ErrSourceFull
		}
		c.source = client
	}
	return nil
}

// readHeader reads the PROXY header of a connection from a trusted proxy. Its addresses
// become those of the connection. It returns the client's address, which is not valid if
// the header names none.
func (g *gate) readHeader(c *conn, h *Conn) (from netip.Addr, err error) {
	var buf [proxy.MaxLength]byte
	header, rest, err := proxy.Read(h, buf[:])
	if err != nil {
		return from, headerError(err)
	}
	if len(rest) > 0 {
		c.reading.Lock()
		c.prefix = append([]byte(nil), rest...)
		c.reading.Unlock()
	}
	return c.takeAddrs(header), nil
}

// headerError returns the error of a connection whose header could not be read.
func headerError(err error) error {
	if errors.Is(err, ErrProxyHeader) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrProxyHeader, err)
}

// takeAddrs gives c the addresses of a PROXY header. It returns the client's, which is not
// valid if the header names none.
func (c *conn) takeAddrs(header proxy.Header) netip.Addr {
	if header.Local || !header.Source.IsValid() {
		return netip.Addr{}
	}
	c.remote.Store(&netAddr{net.TCPAddrFromAddrPort(header.Source)})
	c.local.Store(&netAddr{net.TCPAddrFromAddrPort(header.Destination)})
	return header.Source.Addr()
}

// handshake does the TLS handshake, as the server. The sweep ends the connection if
// it takes too long.
func (g *gate) handshake(h *Conn, config *tls.Config) (*tls.Conn, error) {
	// A client that sends nothing takes no memory.
	if err := h.awaitHello(); err != nil {
		return nil, err
	}
	c, ok := h.take()
	if !ok {
		return nil, fail("handshake", nil, net.ErrClosed)
	}
	defer c.drop() // keeps the connection from being reused before
	if !g.takeHandshake() {
		return nil, fail("handshake", c, h.cause(c, ErrHandshake))
	}
	c.shake(shakeHolds)
	defer c.shake(shakeNot) // deferred, as the program's own functions may panic
	t := tls.Server(h, config)
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	h.tls.Store(t)
	c.enter(open) // it has sent something already
	return t, nil
}

// awaitHello waits until the client has sent something. When the server ends, the client
// has lastCall to do so.
func (h *Conn) awaitHello() error {
	err := h.WaitReadable()
	if !errors.Is(err, ErrDraining) {
		return err
	}
	late := time.AfterFunc(h.c.shared.lastCall, func() { h.cut(ErrDraining) })
	defer late.Stop()
	return h.call("wait", func(c *conn) error {
		c.reading.Lock()
		defer c.reading.Unlock()
		return c.sysWaitReadable(false)
	})
}

// cut ends the connection from outside of its handler.
func (h *Conn) cut(err error) {
	_ = h.call("end", func(c *conn) error {
		c.end(err, &c.shared.counts.cut)
		return nil
	})
}

// StartTLS starts TLS as the server, on the connection of a handler, and returns after the
// handshake. From then on the handler must use the result; it need not close it. The
// Server's limits on handshakes apply. If ctx ends first, so does the connection.
func StartTLS(ctx context.Context, c net.Conn, config *tls.Config) (*tls.Conn, error) {
	h, ok := c.(*Conn)
	if !ok {
		return nil, fmt.Errorf("start TLS: a %T is no connection of this package", c)
	}
	r, ok := ctx.Value(gateKey{}).(*gate)
	if !ok {
		return nil, errors.New("start TLS: the context is not the handler's")
	}
	if config == nil {
		return nil, errors.New("start TLS: there is no configuration")
	}
	if err := h.call("start TLS", func(c *conn) error { c.enter(opening); return nil }); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { h.cut(context.Cause(ctx)) })()
	t, err := r.handshake(h, config)
	if err != nil {
		r.s.counts.badHandshakes.Add(1)
	}
	return t, err
}

// finish ends a connection after its handler has returned or panicked, unless it was
// given to Accept.
func (g *gate) finish(h *Conn, given *bool) {
	if v := recover(); v != nil {
		g.s.panicked(h.RemoteAddr(), v)
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
func (g *gate) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-g.draining:
		return false
	}
}

// acceptFailed counts a failure to accept, and logs one a minute.
func (g *gate) acceptFailed(err error, delay time.Duration) {
	g.s.counts.acceptErrors.Add(1)
	now := time.Now().UnixNano()
	if last := g.loggedAt.Load(); now-last < int64(time.Minute) || !g.loggedAt.CompareAndSwap(last, now) {
		return
	}
	g.s.log().Warn("tcp: cannot accept connections for now; are there enough descriptors (ulimit -n)?", "error", err, slog.Duration("delay", delay))
}
