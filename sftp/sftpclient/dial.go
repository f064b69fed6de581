package sftpclient

import (
	"context"
	"fmt"
	"io"
	"net"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/sshconn"
	"github.com/haul-project/haul/sftp/internal/mux"
)

// Dial connects to addr, a host and a port, logs in, and opens an SFTP session.
// If the Client finds that one connection does not fill the path, it dials
// again, with the same arguments.
//
// ctx ends Dial, but not the Client.
func Dial(ctx context.Context, addr string, login *ssh.ClientConfig, config Config) (*Client, error) {
	config.setDefaults()
	dial := func(ctx context.Context) (*ssh.Client, error) {
		c, _, err := mux.Dial(ctx, addr, login, config.Timeout, config.Delay)
		return c, err
	}
	first, trip, err := mux.Dial(ctx, addr, login, config.Timeout, config.Delay)
	if err != nil {
		return nil, err
	}
	if config.RoundTrip <= 0 {
		config.RoundTrip = trip
	}
	further := config.Connect
	if further == nil {
		further = dial
	}
	c, err := newClient(ctx, mux.OverSSH(first), true, config, mux.Connector(further, mux.OverSSH))
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session with %s: %w", addr, err)
	}
	return c, nil
}

// Gather returns c with buffers, for SSH to run over: it reads what there is at
// once, and while one write is under way it gathers what comes behind it, which
// saves most of the system calls that x/crypto/ssh would make. [Dial] does so
// itself; programs that make connections for [New] call it.
//
// Write may return before all is out, and an error then shows at a later call.
// Close waits for it, no longer than a second, and closes c.
func Gather(c net.Conn) net.Conn { return sshconn.New(c) }

// New opens an SFTP session on a connection, which remains the caller's
// to close, after the Client.
func New(ctx context.Context, conn *ssh.Client, config Config) (*Client, error) {
	c, err := newClient(ctx, mux.OverSSH(conn), false, config, mux.Connector(config.Connect, mux.OverSSH))
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session: %w", err)
	}
	return c, nil
}

// NewStream opens an SFTP session over any stream that leads to a server: the standard
// input and output of "ssh -s HOST sftp" or of an sftp-server, a channel of another SSH
// library, a socket. Further sessions are streams of config.ConnectStream; without it this
// one has to do.
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
	config.Lanes = 1
	c, err := newClient(ctx, mux.OverStream(stream), true, config, mux.Connector(config.ConnectStream, mux.OverStream))
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session: %w", err)
	}
	return c, nil
}

// newClient begins with one connection. If it is owned, it is closed with the
// Client, or if there is an error.
func newClient(ctx context.Context, first mux.Carrier, owned bool, config Config, connect func(context.Context) (mux.Carrier, error)) (*Client, error) {
	config.setDefaults()
	m, err := mux.New(ctx, first, owned, mux.Config{
		Conns: config.Conns, Lanes: config.Lanes, Memory: config.Memory, Requests: min(config.Requests, MaxRequests), RequestBytes: config.RequestBytes,
		First: config.First, Expect: config.Expect, Trip: config.RoundTrip, Timeout: config.Timeout, Stall: config.Stall, Connect: connect,
		Refused: refused,
	})
	if err != nil {
		return nil, err
	}
	return &Client{config: config, server: m.Server, mux: m, recordEvery: recordEvery}, nil
}
