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
// does not fill the path, the Client dials again with the same arguments.
//
// ctx ends Dial, but not the Client.
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

// Gather returns c with buffers, for SSH to run over. It reads all that has come at once, and while
// one write is under way it gathers the next ones. That saves most of the system calls that
// x/crypto/ssh would make. [Dial] does so itself; programs that make connections for [New] call
// Gather.
//
// Write may return before the data is sent, and a later call then returns the error. Close waits
// for the data, no longer than a second, and closes c.
func Gather(c net.Conn) net.Conn { return sshconn.New(c) }

// New opens an SFTP session on a connection, which remains the caller's
// to close, after the Client.
func New(ctx context.Context, conn *ssh.Client, config Config) (*Client, error) {
	c, err := newClient(ctx, mux.OverSSH(conn), false, config, connector(config.Connect, mux.OverSSH))
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session: %w", err)
	}
	return c, nil
}

// NewStream opens an SFTP session over any stream that leads to a server: the standard
// input and output of "ssh -s HOST sftp" or of an sftp-server, a channel of another SSH
// library, a socket. config.ConnectStream makes the streams of further sessions; without it this one
// remains the only session.
//
// The Client closes the stream, even if NewStream fails. Close of a stream has to end a
// Read and a Write that wait, and may be called more than once.
//
// ctx ends NewStream, but not the Client. If it has a deadline, that replaces config.Timeout
// for the first session: a program such as ssh may have to ask the user for a password
// before it carries a byte.
//
// As the version of the server is not known, the Client takes it for one that may
// carry out requests of a session out of order, and waits more often than over SSH of its own.
func NewStream(ctx context.Context, stream io.ReadWriteCloser, config Config) (*Client, error) {
	config.Sessions = 1
	c, err := newClient(ctx, mux.OverStream(stream), true, config, connector(config.ConnectStream, mux.OverStream))
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session: %w", err)
	}
	return c, nil
}

// newClient begins with one connection. If owned, the connection is closed with the Client, or if
// newClient fails.
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

// connector returns a function that makes further connections, or nil if connect is nil. over
// makes a carrier of what connect returns.
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

// dial makes a connection and logs in, within a time limit. It also returns how long it took to
// connect, which is a round trip. delay leaves Nagle's algorithm on.
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

// login logs in over a connection, and closes it if that fails.
func login(ctx context.Context, conn net.Conn, addr string, config *ssh.ClientConfig) (*ssh.Client, error) {
	// x/crypto knows no contexts, so end what it waits for.
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
