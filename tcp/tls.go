package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// StartTLS begins TLS on a connection that a handler has, as its server, and returns
// when the handshake is done. From then on the handler is to use what it returns; it
// need not close it. The limits on handshakes of the handler's Server hold.
func StartTLS(ctx context.Context, c net.Conn, config *tls.Config) (*tls.Conn, error) {
	h, ok := c.(*Conn)
	if !ok {
		return nil, fmt.Errorf("start TLS: a %T is no connection of this package", c)
	}
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil, errors.New("start TLS: the context is not the handler's")
	}
	if err := h.call("start TLS", func(c *conn) error { c.enter(opening); return nil }); err != nil {
		return nil, err
	}
	t, err := r.handshake(h, config)
	if err != nil {
		r.s.counts.badHandshakes.Add(1)
	}
	return t, err
}

// handshake does the TLS handshake, as the server. The sweep ends the connection if
// it takes too long.
func (r *run) handshake(h *Conn, config *tls.Config) (*tls.Conn, error) {
	// A client that says nothing takes no place.
	if err := h.WaitReadable(); err != nil {
		return nil, err
	}
	if err := r.takeHandshake(); err != nil {
		return nil, fail("handshake", nil, err)
	}
	t := tls.Server(h, config)
	err := t.Handshake()
	<-r.s.handshakes
	if err != nil {
		return nil, err
	}
	h.tls.Store(t)
	// It has spoken, so that there is nothing to wait for but the next request.
	return t, h.call("handshake", func(c *conn) error { c.enter(open); return nil })
}

// takeHandshake takes one of the places for handshakes, and waits for it at most as
// long as a handshake may take.
func (r *run) takeHandshake() error {
	select {
	case r.s.handshakes <- struct{}{}:
		return nil
	default:
	}
	t := time.NewTimer(orDefault(r.s.HandshakeTimeout, DefaultHandshakeTimeout))
	defer t.Stop()
	select {
	case r.s.handshakes <- struct{}{}:
		return nil
	case <-t.C:
		return ErrHandshake
	case <-r.ctx.Done():
		return ErrCut
	}
}

// readHeader reads the PROXY header of a connection from a trusted proxy. What it
// says of addresses is the connection's from then on.
func (r *run) readHeader(c *conn, h *Conn) error {
	var buf [maxProxyV2]byte
	header, rest, err := readProxy(h, buf[:])
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		c.reading.Lock()
		c.prefix = append([]byte(nil), rest...)
		c.reading.Unlock()
	}
	if header.Local || !header.Source.IsValid() {
		return nil
	}
	c.remote.Store(&netAddr{net.TCPAddrFromAddrPort(header.Source)})
	c.local.Store(&netAddr{net.TCPAddrFromAddrPort(header.Destination)})
	return r.awaitTurn(c, header.Source.Addr())
}

// errTooMany says that a source has as many connections as it may.
var errTooMany = errors.New("tcp: the source has as many connections as it may")
