package mux

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/sshconn"
)

// Connector returns what makes further connections for a mux, nil if connect is. over makes
// a Carrier of what connect returns.
func Connector[C any](connect func(context.Context) (C, error), over func(C) Carrier) func(context.Context) (Carrier, error) {
	if connect == nil {
		return nil
	}
	return func(ctx context.Context) (Carrier, error) {
		c, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		return over(c), nil
	}
}

// Dial makes a connection and logs in, within a time. It returns as well how long it took
// to connect, which is a round trip. delay leaves Nagle's algorithm on.
func Dial(ctx context.Context, addr string, login *ssh.ClientConfig, limit time.Duration, delay bool) (*ssh.Client, time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrHandshakeTime)
	defer cancel()
	var d net.Dialer
	trip := sshconn.TimeConnect(&d)
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		// If ctx has ended, the dialer's error says only that it was interrupted.
		return nil, 0, fmt.Errorf("connect to %s: %w", addr, cmp.Or(context.Cause(ctx), err))
	}
	if tcp, ok := raw.(*net.TCPConn); ok && delay {
		if err := tcp.SetNoDelay(false); err != nil {
			_ = raw.Close()
			return nil, 0, fmt.Errorf("connect to %s: %w", addr, err)
		}
	}
	took := trip()
	sshconn.WidenSend(raw)
	s, err := Login(ctx, sshconn.New(raw), addr, login)
	if err != nil {
		return nil, 0, fmt.Errorf("log in to %s: %w", addr, err)
	}
	return s, took, nil
}

// Login logs in over a connection, and closes it if that fails.
func Login(ctx context.Context, conn net.Conn, addr string, login *ssh.ClientConfig) (*ssh.Client, error) {
	// x/crypto knows no contexts: what it waits for has to fail.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, addr, login)
	if !stop() {
		_ = conn.Close()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}
