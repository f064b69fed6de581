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

// An opener prepares the connections of one run for the handler: it reads their PROXY headers and
// does their TLS handshakes.
type opener struct {
	admission.Gate
	s *Server

	// hand and pending are nil unless the run belongs to a Listener. hand is then called for each
	// connection in place of Handle, and pending holds an element for each connection that waits
	// for Accept.
	hand    func(*Conn)
	pending chan struct{}

	ctx      context.Context // the context that handlers get
	cancel   context.CancelCauseFunc
	draining chan struct{} // closed when the server begins to end
}

// openerKey is the key of the opener among the values of a handler's context.
type openerKey struct{}

// Draining returns a channel that is closed when the server begins to end. A handler that serves
// one request after another should then return after the current one. ctx must be the handler's
// context; for other contexts Draining returns nil.
func Draining(ctx context.Context) <-chan struct{} {
	if g, ok := ctx.Value(openerKey{}).(*opener); ok {
		return g.draining
	}
	return nil
}

// awaitAccept waits while maxPending connections of a Listener wait for Accept. Without a Listener
// it returns at once.
func (g *opener) awaitAccept() {
	if g.pending != nil {
		g.pending <- struct{}{}
		<-g.pending
	}
}

// serve prepares a connection, calls the handler, and closes the connection.
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

// opened reads the PROXY header and does the TLS handshake. Between the two, it returns an error if
// Allow or Deny refuses the client, or if the client has too many connections.
func (g *opener) opened(c *conns.Conn, h *Conn) (net.Conn, error) {
	var client netip.Addr // the client's address from the PROXY header
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

// readHeader reads the PROXY header of a connection from a trusted proxy, and sets the connection's
// addresses to those in the header. It returns the client's address, which is invalid if the header
// does not contain one.
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

// handshake does the server's part of the TLS handshake. If the handshake takes too long, the
// connection is ended.
func (g *opener) handshake(h *Conn, config *tls.Config) (*tls.Conn, error) {
	// Memory for TLS is allocated only once the client has sent something.
	if err := h.awaitHello(); err != nil {
		return nil, err
	}
	c, ok := h.take()
	if !ok {
		return nil, fail("handshake", nil, net.ErrClosed)
	}
	defer c.Drop() // before Drop, the connection is not reused
	if !g.TakeHandshake() {
		return nil, fail("handshake", c, h.cause(c, ErrHandshake))
	}
	c.BeginHandshake()
	defer c.EndHandshake() // deferred, because functions of the program in config may panic
	t := tls.Server(h, config)
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	h.tls.Store(t)
	c.Opened() // not Listen, because the client has already sent something
	return t, nil
}

// awaitHello waits until the client has sent something. When the server begins to end, the client
// still has the time Times.Drain to do so.
func (h *Conn) awaitHello() error {
	err := h.WaitReadable()
	if !errors.Is(err, ErrDraining) {
		return err
	}
	late := time.AfterFunc(h.c.Group().Times.Drain, func() { h.cut(ErrDraining) })
	defer late.Stop()
	return h.call("wait", func(c *conns.Conn) error { return c.WaitReadable(false) })
}

// cut ends the connection from a goroutine other than its handler's.
func (h *Conn) cut(err error) {
	_ = h.call("end", func(c *conns.Conn) error {
		c.End(err, &c.Group().Counts.Cut)
		return nil
	})
}

// StartTLS does the server's part of a TLS handshake on the connection of a handler, and returns
// after the handshake. From then on the handler must use the returned connection, but need not close
// that connection. The Server's limits on handshakes apply. If ctx is cancelled during the
// handshake, the connection is ended.
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

// finish is deferred. It closes a connection after its handler has returned or panicked. If *given
// is set, Accept has returned the connection, and finish leaves it open.
func (g *opener) finish(h *Conn, given *bool) {
	if v := recover(); v != nil {
		g.Panicked(h.RemoteAddr(), v)
	}
	if given != nil && *given {
		return
	}
	if t := h.tls.Load(); t != nil {
		_ = t.Close() // sends the alert close_notify
	}
	h.close()
}

// sleep waits for d. It returns false early if the server begins to end.
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
