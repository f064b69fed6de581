package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/crypto/ssh"
)

// A Carrier opens SFTP sessions. It is either an SSH connection, or a stream that is itself the
// only session.
type Carrier interface {
	// Open begins an SFTP session. If sequential is set, it waits until the server has accepted the
	// subsystem, which takes a round trip. It returns ErrNoSession if the server allows no more
	// sessions. Close of a session may block while the connection blocks.
	Open(ctx context.Context, sequential bool) (io.ReadWriteCloser, error)

	// Ping returns when the server has answered, or when no answer can arrive any more. It returns
	// [errors.ErrUnsupported] if only a session can carry a request to the server.
	Ping() error

	Close() error
}

// Errors of a connection on which no session could be opened.
var (
	// ErrNoSession means that the server allows no more sessions on a connection.
	ErrNoSession = errors.New("server opens no further session")

	// ErrHandshakeTime means that it took too long to open a connection or a session.
	ErrHandshakeTime = fmt.Errorf("%w within the time for a handshake", ErrStalled)

	errNoSubsystem = errors.New("server refuses the sftp subsystem")
)

// A stream is a Carrier whose only session is the stream itself.
type stream struct {
	io.ReadWriteCloser
	opened atomic.Bool
}

// OverStream returns a Carrier whose only session is s.
func OverStream(s io.ReadWriteCloser) Carrier { return &stream{ReadWriteCloser: s} }

func (s *stream) Open(context.Context, bool) (io.ReadWriteCloser, error) {
	if s.opened.Swap(true) {
		return nil, ErrNoSession
	}
	return s.ReadWriteCloser, nil
}

func (s *stream) Ping() error { return errors.ErrUnsupported }

// An sshConn is a Carrier that opens a channel of an SSH connection for each session.
type sshConn struct {
	client *ssh.Client
	ended  <-chan struct{} // closed when the connection has ended
}

// OverSSH returns a Carrier for a connection of x/crypto/ssh.
func OverSSH(c *ssh.Client) Carrier {
	ended := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(ended)
	}()
	return sshConn{c, ended}
}

func (s sshConn) Open(ctx context.Context, sequential bool) (io.ReadWriteCloser, error) {
	type result struct {
		ch  ssh.Channel
		err error
	}
	opened := make(chan result, 1)
	go func() {
		ch, err := s.session(sequential)
		opened <- result{ch, err}
	}()
	done := func(r result) (io.ReadWriteCloser, error) {
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
		case r := <-opened: // an answer that arrived before the end of the connection
			return done(r)
		default:
		}
		// There will be no answer. When a connection ends, package ssh first drops the channels
		// that wait for an answer, and only then refuses new ones. A channel that is opened in
		// between waits for ever, and so does the goroutine that opens it.
		return nil, io.ErrUnexpectedEOF
	}
}

func (s sshConn) session(sequential bool) (ssh.Channel, error) {
	ch, requests, err := s.client.OpenChannel("session", nil)
	if _, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return nil, fmt.Errorf("%w: %w", ErrNoSession, err)
	}
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(requests)
	// Unread bytes on stderr would use up the channel's window, which the data needs.
	go func() { _, _ = io.Copy(io.Discard, ch.Stderr()) }()
	// If sequential is not set, the first packet is sent right after this request without waiting
	// for its answer, as OpenSSH's client does.
	ok, err := ch.SendRequest("subsystem", sequential, ssh.Marshal(struct{ Name string }{"sftp"}))
	if err == nil && sequential && !ok {
		err = errNoSubsystem
	}
	if err != nil {
		_ = ch.Close()
		return nil, err
	}
	return ch, nil
}

func (s sshConn) Ping() error {
	_, _, err := s.client.SendRequest("keepalive@openssh.com", true, nil)
	return err
}

func (s sshConn) Close() error { return s.client.Close() }
