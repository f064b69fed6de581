package openssh

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// These constants limit how long an agent may take. Signing may take longer, because the agent may
// ask the user for permission, or wait until the user touches a security key.
const (
	agentListTime = 10 * time.Second
	agentSignTime = 2 * time.Minute
)

// maxAgentKeys is the maximum number of keys that are taken from an agent. In practice no agent has
// more.
const maxAgentKeys = 256

// An agentConn is a connection to ssh-agent. It does not trust anything that the agent sends.
type agentConn struct {
	conn   *agentSocket
	client agent.ExtendedAgent
	stop   func() bool // call it so that the end of the context no longer closes the connection
}

// An agentSocket records whether reading or writing has ever failed. The agent's client returns only
// the texts of such errors.
type agentSocket struct {
	net.Conn
	failed atomic.Bool
}

func (s *agentSocket) Read(p []byte) (n int, err error) { return s.note(s.Conn.Read(p)) }

func (s *agentSocket) Write(p []byte) (n int, err error) { return s.note(s.Conn.Write(p)) }

func (s *agentSocket) note(n int, err error) (int, error) {
	if err != nil {
		s.failed.Store(true)
	}
	return n, err
}

// dialAgent connects to an agent. When the context ends, the connection is closed.
func dialAgent(ctx context.Context, socket string) (*agentConn, error) {
	dialing, cancel := context.WithTimeout(ctx, agentListTime)
	defer cancel()
	var d net.Dialer
	dialed, err := d.DialContext(dialing, "unix", socket)
	if err != nil {
		return nil, err
	}
	conn := &agentSocket{Conn: dialed}
	// Hide Close from the client. With Close, the client would read in a separate goroutine, and
	// one answer without a request would block that goroutine forever.
	client := agent.NewClient(struct{ io.ReadWriter }{conn})
	return &agentConn{
		conn:   conn,
		client: client,
		stop:   context.AfterFunc(ctx, func() { _ = conn.Close() }),
	}, nil
}

func (a *agentConn) close() {
	if a != nil {
		a.stop()
		_ = a.conn.Close()
	}
}

// guarded calls f, which sends one request to the agent and reads the answer. The call may take the
// time `limit`. If a request fails for a reason other than the agent's refusal, answers can no
// longer be matched to requests, so later requests fail as well. The parser panics on some
// malformed answers. guarded turns such a panic into an error, and closes the connection.
func (a *agentConn) guarded(limit time.Duration, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			_ = a.conn.Close()
			err = fmt.Errorf("answers nonsense: %v", p)
		}
	}()
	if err := a.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	err = f()
	if a.conn.failed.Load() {
		_ = a.conn.Close()
	}
	return err
}

// signers returns the agent's keys.
func (a *agentConn) signers() (signers []ssh.AlgorithmSigner, err error) {
	err = a.guarded(agentListTime, func() error {
		all, err := a.client.Signers()
		if err != nil {
			return printableError{err}
		}
		for _, s := range all[:min(len(all), maxAgentKeys)] {
			key, err := ssh.ParsePublicKey(s.PublicKey().Marshal())
			if as, ok := s.(ssh.AlgorithmSigner); ok && err == nil {
				signers = append(signers, agentSigner{as, a, key})
			}
		}
		return nil
	})
	return signers, err
}

// An agentSigner is a key in an agent.
type agentSigner struct {
	ssh.AlgorithmSigner
	agent *agentConn
	key   ssh.PublicKey
}

// PublicKey returns the parsed public key. The method of the embedded signer would return an
// *agent.Key.
func (s agentSigner) PublicKey() ssh.PublicKey { return s.key }

// SignWithAlgorithm asks the agent to sign data. It waits at most agentSignTime.
func (s agentSigner) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (sig *ssh.Signature, err error) {
	err = s.agent.guarded(agentSignTime, func() error {
		var err error
		sig, err = s.AlgorithmSigner.SignWithAlgorithm(rand, data, algorithm)
		return err
	})
	if err == nil && algorithm != "" && sig.Format != algorithm {
		return nil, fmt.Errorf("agent signed with %s, and was asked for %s", printable(sig.Format), algorithm)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: %w", printableError{err})
	}
	return sig, nil
}
