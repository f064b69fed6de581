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
	"runtime/debug"
	"sync/atomic"
	"time"
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

	ctx      context.Context // of the handlers
	cancel   context.CancelCauseFunc
	draining chan struct{} // closed when the end begins
	loggedAt atomic.Int64
}

// gateKey is what a handler's context has its run by.
type gateKey struct{}

// Draining returns a channel that is closed when the server begins to end. ctx is the
// handler's; for other contexts it returns nil. A handler that serves request after
// request should then end after the current one.
func Draining(ctx context.Context) <-chan struct{} {
	if r, ok := ctx.Value(gateKey{}).(*gate); ok {
		return r.draining
	}
	return nil
}

// admit decides whether an accepted connection is served. Without Refuse it waits for a
// place.
func (r *gate) admit(c *conn) bool {
	c.source = netip.Addr{}
	if p := &r.s.places; p.max > 0 && !p.take() {
		if r.s.Refuse || !p.wait(r.ctx.Done()) {
			return r.refuse(c)
		}
	}
	if r.s.sources != nil {
		from := c.sysSource()
		if r.isProxy(from) {
			return true // its clients are counted instead
		}
		if !r.s.sources.enter(from) {
			r.left(netip.Addr{})
			return r.refuse(c)
		}
		c.source = from
	}
	return true
}

// refuse counts a refusal, and makes the connection's close a reset.
func (r *gate) refuse(c *conn) bool {
	r.s.counts.refused.Add(1)
	_ = c.sysLinger(0)
	return false
}

// left gives back what admit took.
func (r *gate) left(source netip.Addr) {
	if r.s.places.max > 0 {
		r.s.places.give()
	}
	if source.IsValid() {
		r.s.sources.leave(source)
	}
}

// isProxy reports whether connections of a source begin with a PROXY header. A source
// that is not valid is a peer on a unix socket.
func (r *gate) isProxy(a netip.Addr) bool {
	if !a.IsValid() {
		return r.s.UnixProxies
	}
	return inAny(r.s.Proxies, a)
}

// awaitAccept waits while too many connections of a Listener wait for Accept.
func (r *gate) awaitAccept() {
	if r.pending != nil {
		r.pending <- struct{}{}
		<-r.pending
	}
}

// serve serves a connection, and ends it.
func (r *gate) serve(c *conn, h *Conn) {
	if r.hand != nil {
		r.hand(h)
		return
	}
	defer r.finish(h, nil)
	if nc := r.open(c, h); nc != nil {
		r.s.Handle(r.ctx, nc)
	}
}

// open does what comes before the handler. If that fails, it counts the failure and
// returns nil.
func (r *gate) open(c *conn, h *Conn) net.Conn {
	nc, err := r.opened(c, h)
	switch {
	case err == nil:
		return nc
	case errors.Is(err, errTooMany), errors.Is(err, errDenied):
		r.s.counts.refused.Add(1)
		_ = h.SetLinger(0)
	default:
		r.s.counts.badHandshakes.Add(1)
		if report := r.s.BadHandshake; report != nil && !errors.Is(err, ErrDraining) && !errors.Is(err, ErrCut) {
			report(h, err)
		}
	}
	return nil
}

// opened waits for the PROXY header and for TLS. A connection that Allow or Deny refuses,
// or of a client that has too many, ends after the header.
func (r *gate) opened(c *conn, h *Conn) (net.Conn, error) {
	var client netip.Addr // that a proxy names
	if r.s.hasProxies() && r.isProxy(c.sysSource()) {
		var err error
		if client, err = r.readHeader(c, h); err != nil {
			return nil, err
		}
	}
	if s := r.s; len(s.Allow)+len(s.Deny) > 0 && !s.allows(cmp.Or(client, c.sysSource())) {
		if s.Denied != nil {
			s.Denied(h.RemoteAddr())
		}
		return nil, errDenied
	}
	if r.s.sources != nil && client.IsValid() {
		if !r.s.sources.enter(client) {
			return nil, errTooMany
		}
		c.source = client
	}
	if r.s.TLS != nil {
		return r.handshake(h, r.s.TLS)
	}
	c.enter(listening)
	return h, nil
}

// Reasons to refuse a connection once its client is known.
var (
	errTooMany = errors.New("tcp: the source has as many connections as it may")
	errDenied  = errors.New("tcp: the source is not allowed here")
)

// readHeader reads the PROXY header of a connection from a trusted proxy. Its addresses
// become those of the connection. It returns the client's address, which is not valid if
// the header names none.
func (r *gate) readHeader(c *conn, h *Conn) (from netip.Addr, err error) {
	var buf [maxProxyV2]byte
	header, rest, err := readProxy(h, buf[:])
	switch {
	case errors.Is(err, ErrProxyHeader):
		return from, err
	case err != nil:
		return from, fmt.Errorf("%w: %w", ErrProxyHeader, err)
	}
	if len(rest) > 0 {
		c.reading.Lock()
		c.prefix = append([]byte(nil), rest...)
		c.reading.Unlock()
	}
	if header.Local || !header.Source.IsValid() {
		return from, nil
	}
	c.remote.Store(&netAddr{net.TCPAddrFromAddrPort(header.Source)})
	c.local.Store(&netAddr{net.TCPAddrFromAddrPort(header.Destination)})
	return header.Source.Addr(), nil
}

// handshake does the TLS handshake, as the server. The sweep ends the connection if
// it takes too long.
func (r *gate) handshake(h *Conn, config *tls.Config) (*tls.Conn, error) {
	// A client that sends nothing takes no memory.
	if err := h.awaitHello(); err != nil {
		return nil, err
	}
	c, ok := h.take()
	if !ok {
		return nil, fail("handshake", nil, net.ErrClosed)
	}
	defer c.drop() // keeps the connection from being reused before
	if !r.takeHandshake() {
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
	late := time.AfterFunc(h.c.shared.lastCall, func() {
		_ = h.call("end", func(c *conn) error {
			c.end(ErrDraining, &c.shared.counts.cut)
			return nil
		})
	})
	defer late.Stop()
	return h.call("wait", func(c *conn) error {
		c.reading.Lock()
		defer c.reading.Unlock()
		return c.sysWaitReadable(false)
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
	defer context.AfterFunc(ctx, func() {
		_ = h.call("end", func(c *conn) error {
			c.end(context.Cause(ctx), &r.s.counts.cut)
			return nil
		})
	})()
	t, err := r.handshake(h, config)
	if err != nil {
		r.s.counts.badHandshakes.Add(1)
	}
	return t, err
}

// finish ends a connection after its handler has returned or panicked, unless it was
// given to Accept.
func (r *gate) finish(h *Conn, given *bool) {
	if v := recover(); v != nil {
		r.s.counts.panics.Add(1)
		r.s.log().Error("tcp: a handler panicked", "peer", h.RemoteAddr().String(), "panic", v, "stack", string(debug.Stack()))
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
func (r *gate) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.draining:
		return false
	}
}

// acceptFailed counts a failure to accept, and logs one a minute.
func (r *gate) acceptFailed(err error, delay time.Duration) {
	r.s.counts.acceptErrors.Add(1)
	now := time.Now().UnixNano()
	if last := r.loggedAt.Load(); now-last < int64(time.Minute) || !r.loggedAt.CompareAndSwap(last, now) {
		return
	}
	r.s.log().Warn("tcp: cannot accept connections for now; are there enough descriptors (ulimit -n)?", "error", err, slog.Duration("delay", delay))
}
