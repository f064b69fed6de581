package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// StartTLS begins TLS on a connection that a handler has, as its server, and returns
// when the handshake is done. From then on the handler is to use what it returns; it
// need not close it. The limits on handshakes of the handler's Server hold. If ctx ends
// first, so does the connection.
func StartTLS(ctx context.Context, c net.Conn, config *tls.Config) (*tls.Conn, error) {
	h, ok := c.(*Conn)
	if !ok {
		return nil, fmt.Errorf("start TLS: a %T is no connection of this package", c)
	}
	r, ok := ctx.Value(runKey{}).(*run)
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

// handshake does the TLS handshake, as the server. The sweep ends the connection if
// it takes too long.
func (r *run) handshake(h *Conn, config *tls.Config) (*tls.Conn, error) {
	// A client that says nothing takes no memory for it either.
	if err := h.awaitHello(); err != nil {
		return nil, err
	}
	c, ok := h.take()
	if !ok {
		return nil, fail("handshake", nil, net.ErrClosed)
	}
	defer c.drop() // so that the place is its own until then
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
	c.enter(open) // it has spoken, so that there is nothing to wait for but the next request
	return t, nil
}

// awaitHello waits until the client has begun to speak. At the server's end it has a
// moment left to.
func (h *Conn) awaitHello() error {
	err := h.WaitReadable()
	if !errors.Is(err, ErrDraining) {
		return err
	}
	late := time.AfterFunc(h.c.run.lastCall, func() {
		_ = h.call("end", func(c *conn) error {
			c.end(ErrDraining, &c.run.s.counts.cut)
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

// A shake says whether a connection has one of the places for TLS handshakes. It has
// one while the server computes, and none while it waits for its client: who is slow
// would take it from others.
type shake uint8

const (
	shakeNot   shake = iota // there is no handshake
	shakeHolds              // it has a place
	shakeWaits              // it has given it back, to wait
)

// shake begins a handshake, or ends it.
func (c *conn) shake(to shake) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.shaking == shakeHolds {
		<-c.run.s.handshakes
	}
	c.shaking = to
}

// shakesAgain reports whether a handshake that has waited has a place again. reading
// is held.
func (c *conn) shakesAgain() bool {
	if !c.run.takeHandshake() {
		return false
	}
	c.shaking = shakeHolds
	return true
}

// takeHandshake takes one of the places for handshakes, and waits for it at most as
// long as a handshake may take.
func (r *run) takeHandshake() bool {
	select {
	case r.s.handshakes <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(orDefault(r.s.HandshakeTimeout, DefaultHandshakeTimeout))
	defer t.Stop()
	select {
	case r.s.handshakes <- struct{}{}:
		return true
	case <-t.C:
	case <-r.ctx.Done():
	}
	return false
}

// readHeader reads the PROXY header of a connection from a trusted proxy. Its addresses
// become the connection's. It returns the client's, which is not valid if the header
// names none.
func (r *run) readHeader(c *conn, h *Conn) (from netip.Addr, err error) {
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

// Why a connection is refused once it is known whose it is.
var (
	errTooMany = errors.New("tcp: the source has as many connections as it may")
	errDenied  = errors.New("tcp: the source is not allowed here")
)
