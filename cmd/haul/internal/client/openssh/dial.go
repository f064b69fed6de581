package openssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
)

// Dial connects and logs in to a destination. The context limits only that: the Client remains
// usable after the context ends. Errors wrap [ErrConfig], [ErrHostKey], [ErrAuth] or [ErrRefused],
// or come from the network or the context.
func (d *Dialer) Dial(ctx context.Context, dest Destination) (*Client, error) {
	return d.dial(ctx, &dest, 0)
}

func (d *Dialer) dial(ctx context.Context, dest *Destination, depth int) (*Client, error) {
	switch {
	case dest.Host == "":
		return nil, configErrorf("the destination has no host")
	case depth > maxJumps:
		return nil, configErrorf("more than %d jump hosts", maxJumps)
	}
	limit := dest.ConnectTimeout
	if limit <= 0 {
		limit = connectTime
	}
	began := time.Now()
	l, err := d.link(ctx, dest, limit, depth)
	if err != nil {
		return nil, err
	}
	if dest.Jump == nil {
		// As in ssh, one limit covers everything before the login, so reduce it by the time that has
		// passed. With a jump host the full limit applies, because the login there had its own limit.
		limit = max(limit-time.Since(began), time.Millisecond)
	}
	c, err := d.handshake(ctx, dest, l, limit)
	if err != nil {
		l.close()
		return nil, err
	}
	return c, nil
}

// link connects to a host: directly, through a command, or through a jump host.
func (d *Dialer) link(ctx context.Context, dest *Destination, limit time.Duration, depth int) (*link, error) {
	l, err := d.rawLink(ctx, dest, limit, depth)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("connect to %s: %w", dest.name(), err)
	}
	if d.Wrap != nil {
		l.conn = d.Wrap(l.conn)
	}
	return l, nil
}

func (d *Dialer) rawLink(ctx context.Context, dest *Destination, limit time.Duration, depth int) (*link, error) {
	switch {
	case dest.Jump != nil:
		jump, err := d.dial(ctx, dest.Jump, depth+1)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		conn, err := through(ctx, jump, dest.address(), limit)
		if err != nil {
			_ = jump.Close()
			return nil, fmt.Errorf("from %s: %w", dest.Jump.name(), err)
		}
		return &link{conn: conn, cut: jump.link.cut, jump: jump, trip: time.Since(began)}, nil
	case dest.ProxyCommand != "":
		p, err := d.startProxy(dest.ProxyCommand)
		if err != nil {
			return nil, fmt.Errorf("ProxyCommand: %w", err)
		}
		return &link{conn: p, cut: p.Cut, proxy: p}, nil
	}
	conn, trip, err := dialTCP(ctx, dest, limit)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn, cut: func() { _ = conn.Close() }, trip: trip}, nil
}

// through connects to an address through a jump host.
func through(ctx context.Context, jump *Client, address string, limit time.Duration) (net.Conn, error) {
	// The request cannot be cancelled. So cut the connection to the jump host if the request takes
	// too long.
	stop := context.AfterFunc(ctx, jump.link.cut)
	defer stop()
	waiting := newPatience(limit, jump.link.cut)
	conn, err := jump.Client.Dial("tcp", address)
	if waiting.stop() {
		if err == nil {
			_ = conn.Close()
		}
		return nil, overdue(limit)
	}
	if err != nil {
		return nil, printableError{err}
	}
	return conn, nil
}

// handshake turns a link into a Client: it exchanges versions and keys, checks the host key, and logs
// in.
func (d *Dialer) handshake(ctx context.Context, dest *Destination, l *link, limit time.Duration) (*Client, error) {
	conn := &watched{Conn: l.conn}
	waiting := newPatience(limit, l.cut)
	stop := context.AfterFunc(ctx, l.cut)

	host, err := newHostCheck(ctx, d, dest, waiting)
	if err != nil {
		waiting.stop()
		stop()
		return nil, err
	}
	auth := &authenticator{d: d, ctx: ctx, dest: dest, waiting: waiting, host: host, lost: conn.lost}
	defer auth.close()
	config := &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges:   or(dest.KexAlgorithms, defaultKeyExchanges),
			Ciphers:        or(dest.Ciphers, defaultCiphers),
			MACs:           or(dest.MACs, defaultMACs),
			RekeyThreshold: dest.RekeyLimit,
		},
		User:              dest.User,
		HostKeyCallback:   host.check,
		HostKeyAlgorithms: host.algorithms(),
		AuthCallback:      auth.next,
		BannerCallback:    auth.banner,
	}
	sshConn, channels, requests, err := ssh.NewClientConn(conn, dest.address(), config)
	// The time limit or the context may have cut the connection just after the login succeeded.
	fired, ended := waiting.stop(), !stop()
	if err == nil && !fired && !ended {
		auth.done()
		return newClient(dest, l, conn, ssh.NewClient(sshConn, channels, requests)), nil
	}
	if err == nil {
		_ = sshConn.Close()
		// NewClient drains the channels and requests, so that no goroutine stays blocked.
		ssh.NewClient(sshConn, channels, requests)
	}
	if words := conn.said.words(); words != "" && ctx.Err() == nil && !fired && l.proxy == nil {
		if !refuses(words) {
			return nil, fmt.Errorf("connect to %s: no SSH server: it says %q: %w", dest.name(), words, printableError{err})
		}
		return nil, &RefusedError{Host: dest.name(), Words: words, Err: printableError{err}}
	}
	return nil, d.explain(ctx, dest, l, host, auth, fired, err)
}

// explain returns the error for a failed handshake, with the most likely reason.
func (d *Dialer) explain(ctx context.Context, dest *Destination, l *link, host *hostCheck, auth *authenticator, fired bool, err error) error {
	doing := "connect to " + dest.name()
	if host.accepted != nil {
		doing = "log in as " + dest.login()
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case host.err != nil:
		return host.err
	case errors.Is(auth.err, ErrAuth):
		return auth.err
	case fired && host.accepted != nil:
		return fmt.Errorf("%s: %w", doing, overdue(authTime))
	case fired:
		return fmt.Errorf("%s: the server answers too slowly: %w", doing, os.ErrDeadlineExceeded)
	}
	err = printableError{err}
	if status := l.proxy.status(); status != "" {
		return fmt.Errorf("%s: %s: %w", doing, status, err)
	}
	if isBroken(err) {
		return fmt.Errorf("%s: the connection broke: %w", doing, err)
	}
	if _, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		return &ConfigError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	if host.accepted != nil {
		return auth.fail(err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
