package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/sshconn"
)

// A carrier is what lanes are opened on: an SSH connection.
type carrier interface {
	// open begins a session in which the server speaks SFTP. If careful, it
	// waits until the server has agreed to do so, which takes a round trip.
	// Where the server allows no more of them, the error is errRefused.
	open(ctx context.Context, careful bool) (stream, error)

	// ping returns once the server has answered something, or cannot.
	ping() error

	Close() error
}

// A stream is one session: an SSH channel. Close may block if the connection
// does.
type stream interface {
	io.ReadWriteCloser
}

var (
	errRefused       = errors.New("server opens no further session")
	errNoSubsystem   = errors.New("server refuses the sftp subsystem")
	errHandshakeTime = fmt.Errorf("%w within the time for a handshake", ErrStalled)
)

// Dial connects to addr, a host and a port, logs in, and opens an SFTP session.
// If the Client finds that one connection does not fill the path, it dials
// again, with the same arguments.
//
// ctx ends Dial, but not the Client.
func Dial(ctx context.Context, addr string, login *ssh.ClientConfig, config Config) (*Client, error) {
	config.setDefaults()
	connect := func(ctx context.Context) (carrier, error) { return dialSSH(ctx, addr, login, config) }
	if further := config.Connect; further != nil {
		connect = func(ctx context.Context) (carrier, error) {
			c, err := further(ctx)
			if err != nil {
				return nil, err
			}
			return newSSHCarrier(c), nil
		}
	}
	first, err := dialSSH(ctx, addr, login, config)
	if err != nil {
		return nil, err
	}
	c, err := newClient(ctx, first, true, config, connect)
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session with %s: %w", addr, err)
	}
	return c, nil
}

// dialSSH makes a connection and logs in.
func dialSSH(ctx context.Context, addr string, login *ssh.ClientConfig, config Config) (carrier, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, config.Timeout, errHandshakeTime)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, because(ctx, err))
	}
	if tcp, ok := raw.(*net.TCPConn); ok && config.Delay {
		if err := tcp.SetNoDelay(false); err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("connect to %s: %w", addr, err)
		}
	}
	sshconn.WidenSend(raw)
	s, err := sshOver(ctx, sshconn.New(raw), addr, login)
	if err != nil {
		return nil, fmt.Errorf("log in to %s: %w", addr, err)
	}
	return newSSHCarrier(s), nil
}

// sshOver logs in over a connection, and closes it if that fails.
func sshOver(ctx context.Context, conn net.Conn, addr string, login *ssh.ClientConfig) (*ssh.Client, error) {
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

// because returns why a context ended if it has, since the error of what it
// interrupted only says that it was interrupted.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// An sshCarrier is a connection of x/crypto.
type sshCarrier struct {
	client *ssh.Client
	ended  <-chan struct{} // closed when the connection has ended
}

func newSSHCarrier(c *ssh.Client) sshCarrier {
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	return sshCarrier{c, ended}
}

func (s sshCarrier) open(ctx context.Context, careful bool) (stream, error) {
	type result struct {
		ch  ssh.Channel
		err error
	}
	opened := make(chan result, 1)
	go func() {
		ch, err := s.session(careful)
		opened <- result{ch, err}
	}()
	done := func(r result) (stream, error) {
		if r.err != nil {
			return nil, r.err
		}
		return r.ch, nil
	}
	select {
	case r := <-opened:
		return done(r)
	case <-ctx.Done():
		go func() {
			select {
			case r := <-opened:
				if r.err == nil {
					_ = r.ch.Close()
				}
			case <-s.ended:
			}
		}()
		return nil, context.Cause(ctx)
	case <-s.ended:
		select {
		case r := <-opened: // an answer that came before
			return done(r)
		default:
		}
		// Package ssh drops the channels that wait for an answer before it takes
		// notice of the end in what is sent. Who opens one in between waits for
		// ever, and so does the goroutine that does.
		return nil, io.ErrUnexpectedEOF
	}
}

func (s sshCarrier) session(careful bool) (ssh.Channel, error) {
	ch, requests, err := s.client.OpenChannel("session", nil)
	if refusal := (*ssh.OpenChannelError)(nil); errors.As(err, &refusal) {
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	}
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(requests)
	// What is not read counts against the window that the data has too.
	go func() { _, _ = io.Copy(io.Discard, ch.Stderr()) }()
	// Not careful, the first packet goes out right behind the request, as that
	// of OpenSSH's client does: x/crypto would wait for the answer.
	ok, err := ch.SendRequest("subsystem", careful, ssh.Marshal(struct{ Name string }{"sftp"}))
	if err == nil && careful && !ok {
		err = errNoSubsystem
	}
	if err != nil {
		_ = ch.Close()
		return nil, err
	}
	return ch, nil
}

func (s sshCarrier) ping() error {
	_, _, err := s.client.SendRequest("keepalive@openssh.com", true, nil)
	return err
}

func (s sshCarrier) Close() error { return s.client.Close() }

// Gather returns c with buffers, for SSH to run over: it reads what there is at
// once, and while one write is under way it gathers what comes behind it, which
// saves most of the system calls that x/crypto/ssh would make. [Dial] does so
// itself; programs that make connections for [New] call it.
//
// Write may return before all is out, and an error then shows at a later call.
// Close waits for it, no longer than a second, and closes c.
func Gather(c net.Conn) net.Conn { return sshconn.New(c) }
