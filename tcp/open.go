package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/haul-project/haul/tcp/internal/admission"
	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/proxy"
)

// An opener prepares the connections of one run for the handler: it reads PROXY headers and does
// TLS handshakes.
type opener struct {
	admission.Gate
	s *Server

	// These are set for a Listener. hand gets each connection instead of Handle, and pending has an
	// element for each connection that waits for Accept.
	hand    func(*Conn)
	pending chan struct{}

	ctx      context.Context // the handlers' context
	cancel   context.CancelCauseFunc
	draining chan struct{} // closed when the end begins
}

// openerKey is the key of the opener in a handler's context.
type openerKey struct{}

// Draining returns a channel that is closed when the server begins to end. A handler that serves
// one request after another should then end after the current one. ctx is the handler's context;
// for other contexts Draining returns nil.
func Draining(ctx context.Context) <-chan struct{} {
	if g, ok := ctx.Value(openerKey{}).(*opener); ok {
		return g.draining
	}
	return nil
}

// awaitAccept waits while too many connections of a Listener wait for Accept.
func (g *opener) awaitAccept() {
	if g.pending != nil {
		g.pending <- struct{}{}
		<-g.pending
	}
}

// serve serves a connection, and ends it.
func (g *opener) serve(c *conns.Conn, h *Conn) {
	if g.hand != nil {
		g.hand(h)
		return
	}
	defer g.finish(h, nil)
	switch nc := g.open(c, h); {
	case nc == nil:
	case g.s.Driver != nil:
		g.s.Driver.Serve(nc, h, c)
	default:
		g.s.Handle(g.ctx, nc)
	}
}

// open prepares a connection for the handler. If that fails, it counts the failure and returns nil.
func (g *opener) open(c *conns.Conn, h *Conn) net.Conn {
	nc, err := g.opened(c, h)
	if err != nil {
		g.reject(c, h, err)
		return nil
	}
	return nc
}

// reject counts and reports why a connection is not served.
func (g *opener) reject(c *conns.Conn, h *Conn, err error) {
	defer g.Caught(h.RemoteAddr)
	if g.Gate.Reject(c, h.RemoteAddr(), err) {
		return
	}
	g.Counts.BadHandshakes.Add(1)
	if report := g.s.BadHandshake; report != nil && !errors.Is(err, ErrDraining) && !errors.Is(err, ErrCut) {
		report(h, err)
	}
}

// opened waits for the PROXY header and for TLS. It ends a connection after the header if Allow or
// Deny refuses it, or if its client has too many connections.
func (g *opener) opened(c *conns.Conn, h *Conn) (net.Conn, error) {
	var client netip.Addr // the address in the proxy's header
	if g.HasProxies() && g.IsProxy(c.PeerIP()) {
		var err error
		if client, err = g.readHeader(c, h); err != nil {
			return nil, err
		}
	}
	if err := g.Check(c, client); err != nil {
		return nil, err
	}
	if g.s.TLS != nil {
		return g.handshake(h, g.s.TLS)
	}
	c.Listen()
	return h, nil
}

// readHeader reads the PROXY header of a connection from a trusted proxy, and gives the connection
// its addresses. It returns the client's address, which is invalid if the header names none.
func (g *opener) readHeader(c *conns.Conn, h *Conn) (from netip.Addr, err error) {
	var buf [proxy.MaxLength]byte
	header, rest, err := proxy.Read(h, buf[:])
	if err != nil {
		return from, proxy.Failed(err)
	}
	if len(rest) > 0 {
		c.Prepend(append([]byte(nil), rest...))
	}
	return c.TakeAddrs(header), nil
}

// handshake does the TLS handshake as the server. It ends the connection if it takes too long.
func (g *opener) handshake(h *Conn, config *tls.Config) (*tls.Conn, error) {
	// A client that sends nothing must not cost memory.
	if err := h.awaitHello(); err != nil {
		return nil, err
	}
	c, ok := h.take()
	if !ok {
		return nil, fail("handshake", nil, net.ErrClosed)
	}
	defer c.Drop() // keeps the connection from being reused until then
	if !g.TakeHandshake() {
		return nil, fail("handshake", c, h.cause(c, ErrHandshake))
	}
	c.BeginHandshake()
	defer c.EndHandshake() // deferred, because the program's own functions may panic
	t := tls.Server(h, config)
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	h.tls.Store(t)
	c.Opened() // the client has already sent something
	return t, nil
}

// awaitHello waits until the client has sent something. If the server ends, the client still has a
// moment to do so.
func (h *Conn) awaitHello() error {
	err := h.WaitReadable()
	if !errors.Is(err, ErrDraining) {
		return err
	}
	late := time.AfterFunc(h.c.Group().Times.Drain, func() { h.cut(ErrDraining) })
	defer late.Stop()
	return h.call("wait", func(c *conns.Conn) error { return c.WaitReadable(false) })
}

// cut ends the connection from outside its handler.
func (h *Conn) cut(err error) {
	_ = h.call("end", func(c *conns.Conn) error {
		c.End(err, &c.Group().Counts.Cut)
		return nil
	})
}

// StartTLS starts TLS as the server on the connection of a handler, and returns after the
// handshake. From then on the handler must use the result, which it need not close. The Server's
// limits on handshakes apply. If ctx ends before the handshake does, so does the connection.
func StartTLS(ctx context.Context, c net.Conn, config *tls.Config) (*tls.Conn, error) {
	h, ok := c.(*Conn)
	if !ok {
		return nil, fmt.Errorf("start TLS: a %T is no connection of this package", c)
	}
	r, ok := ctx.Value(openerKey{}).(*opener)
	if !ok {
		return nil, errors.New("start TLS: the context is not the handler's")
	}
	if config == nil {
		return nil, errors.New("start TLS: there is no configuration")
	}
	if err := h.call("start TLS", func(c *conns.Conn) error { c.Handshake(); return nil }); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { h.cut(context.Cause(ctx)) })()
	t, err := r.handshake(h, config)
	if err != nil {
		r.Counts.BadHandshakes.Add(1)
	}
	return t, err
}

// finish ends a connection after its handler has returned or panicked, unless Accept has returned
// it.
func (g *opener) finish(h *Conn, given *bool) {
	if v := recover(); v != nil {
		g.Panicked(h.RemoteAddr(), v)
	}
	if given != nil && *given {
		return
	}
	if t := h.tls.Load(); t != nil {
		_ = t.Close() // sends close_notify
	}
	h.close()
}

// sleep waits for d. It reports false if the server ends first.
func (g *opener) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-g.draining:
		return false
	}
}
