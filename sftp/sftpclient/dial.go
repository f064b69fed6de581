package sftpclient

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/sshconn"
	"github.com/haul-project/haul/sftp/internal/mux"
)

// Dial connects to addr, a host and a port, logs in, and opens an SFTP session. If one connection
// is not enough for the full throughput, the Client dials again with the same arguments.
//
// The Client outlives ctx, which is used only for Dial.
func Dial(ctx context.Context, addr string, login *ssh.ClientConfig, config Config) (*Client, error) {
	config.setDefaults()
	first, trip, err := dial(ctx, addr, login, config.Timeout, config.Delay)
	if err != nil {
		return nil, err
	}
	if config.RoundTrip <= 0 {
		config.RoundTrip = trip
	}
	further := config.Connect
	if further == nil {
		further = func(ctx context.Context) (*ssh.Client, error) {
			c, _, err := dial(ctx, addr, login, config.Timeout, config.Delay)
			return c, err
		}
	}
	c, err := newClient(ctx, mux.OverSSH(first), true, config, connector(further, mux.OverSSH))
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session with %s: %w", addr, err)
	}
	return c, nil
}

// Gather returns a buffered connection over c, for SSH. One read from c takes in all bytes that
// have arrived. While one write to c is in progress, further writes are gathered into the next one.
// That saves most of the system calls that x/crypto/ssh would make. [Dial] calls it; programs that
// open connections for [New] should call it too.
//
// Write may return before the data is sent; a later call then returns the error. Close waits at
// most a second for the data, and closes c.
func Gather(c net.Conn) net.Conn { return sshconn.New(c) }

// New opens an SFTP session on a connection. The caller must close the connection, after the
// Client.
func New(ctx context.Context, conn *ssh.Client, config Config) (*Client, error) {
	c, err := newClient(ctx, mux.OverSSH(conn), false, config, connector(config.Connect, mux.OverSSH))
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session: %w", err)
	}
	return c, nil
}

// NewStream opens an SFTP session over any stream that leads to a server: the standard input and
// output of "ssh -s HOST sftp" or of an sftp-server, a channel of another SSH library, a socket.
// config.ConnectStream opens the streams of further sessions. Without it, this is the only session.
//
// The Client closes the stream, even if NewStream fails. Close of a stream must interrupt a pending
// Read and Write, and may be called more than once.
//
// The Client outlives ctx, which is used only for NewStream. A deadline of ctx replaces
// config.Timeout for the first session: a program such as ssh may have to ask the user for a
// password before it carries a byte.
//
// The version of the server is unknown, so the Client assumes that it may execute requests of a
// session out of order. Therefore it waits more often than over its own SSH connections.
func NewStream(ctx context.Context, stream io.ReadWriteCloser, config Config) (*Client, error) {
	config.Sessions = 1
	c, err := newClient(ctx, mux.OverStream(stream), true, config, connector(config.ConnectStream, mux.OverStream))
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session: %w", err)
	}
	return c, nil
}

// newClient returns a Client whose first session is on the connection `first`. If owned is set,
// that connection is closed with the Client, or if newClient fails.
func newClient(ctx context.Context, first mux.Carrier, owned bool, config Config, connect func(context.Context) (mux.Carrier, error)) (*Client, error) {
	config.setDefaults()
	m, err := mux.New(ctx, first, owned, mux.Config{
		Conns: config.Conns, Sessions: config.Sessions, Memory: config.Memory, Requests: min(config.Requests, MaxRequests), RequestBytes: config.RequestBytes,
		First: config.First, Expect: config.Expect, Trip: config.RoundTrip, Timeout: config.Timeout, Stall: config.Stall, Connect: connect,
		Refused: refused,
	})
	if err != nil {
		return nil, err
	}
	c := &Client{config: config, server: m.Server, mux: m, run: run{config.Runs}, recordEvery: recordEvery}
	c.disk.c = c
	return c, nil
}

// connector returns a function that opens further connections, or nil if connect is nil. The
// function `over` converts the result of connect into a carrier.
func connector[C any](connect func(context.Context) (C, error), over func(C) mux.Carrier) func(context.Context) (mux.Carrier, error) {
	if connect == nil {
		return nil
	}
	return func(ctx context.Context) (mux.Carrier, error) {
		c, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		return over(c), nil
	}
}

// dial opens a connection and logs in, within a time limit. It also returns how long the TCP
// handshake took, which is about one round trip. If delay is set, it keeps Nagle's algorithm
// enabled.
func dial(ctx context.Context, addr string, config *ssh.ClientConfig, limit time.Duration, delay bool) (*ssh.Client, time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, mux.ErrHandshakeTime)
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
	s, err := login(ctx, sshconn.New(raw), addr, config)
	if err != nil {
		return nil, 0, fmt.Errorf("log in to %s: %w", addr, err)
	}
	return s, took, nil
}

// login logs in over a connection. It closes the connection on failure.
func login(ctx context.Context, conn net.Conn, addr string, config *ssh.ClientConfig) (*ssh.Client, error) {
	// x/crypto does not support contexts, so close the connection under it.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, addr, config)
	if !stop() {
		_ = conn.Close()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}
