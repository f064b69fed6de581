package openssh

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// A pipe is one direction of a connection. It buffers everything written, and exists only in
// memory, so that tests can use a fake clock.
type pipe struct {
	mu     sync.Mutex
	wake   sync.Cond
	data   []byte
	closed bool
	silent bool // data that is written from now on is lost
}

func newPipe() *pipe {
	p := &pipe{}
	p.wake.L = &p.mu
	return p
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.data) == 0 {
		if p.closed {
			return 0, io.EOF
		}
		p.wake.Wait()
	}
	n := copy(b, p.data)
	p.data = p.data[n:]
	return n, nil
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0, net.ErrClosed
	}
	if !p.silent {
		p.data = append(p.data, b...)
	}
	p.wake.Broadcast()
	return len(b), nil
}

func (p *pipe) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake.Broadcast()
}

// A pipeEnd is one end of a connection made of two pipes.
type pipeEnd struct {
	net.Conn // nil, because tests do not call the methods that it would provide (addresses, deadlines)
	in, out  *pipe
}

func (e pipeEnd) Read(b []byte) (int, error)  { return e.in.Read(b) }
func (e pipeEnd) Write(b []byte) (int, error) { return e.out.Write(b) }
func (e pipeEnd) LocalAddr() net.Addr         { return proxyAddr{} }
func (e pipeEnd) RemoteAddr() net.Addr        { return proxyAddr{} }

func (e pipeEnd) Close() error {
	e.in.end()
	e.out.end()
	return nil
}

// connectPipes logs in to a server over pipes, and returns the pipe that the server writes to.
func connectPipes(t *testing.T, d *Dialer, dest *Destination, config *ssh.ServerConfig) (*Client, *pipe, error) {
	t.Helper()
	down, up := newPipe(), newPipe()
	server := pipeEnd{in: up, out: down}
	client := pipeEnd{in: down, out: up}
	go func() {
		_, channels, requests, err := ssh.NewServerConn(server, config)
		if err != nil {
			_ = server.Close()
			return
		}
		go ssh.DiscardRequests(requests)
		for c := range channels {
			_ = c.Reject(ssh.Prohibited, "no channels")
		}
	}()
	l := &link{conn: client, cut: func() { _ = client.Close() }}
	c, err := d.handshake(t.Context(), dest, l, connectTime)
	if err != nil {
		_ = client.Close()
	}
	return c, down, err
}

// A slow user does not count as a slow network.
func TestSlowUser(t *testing.T) {
	config := takesPassword("x")
	config.AddHostKey(newKey(t, "ed25519"))
	dest := &Destination{User: "bob", Host: "slow"}
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{Prompter: &slowUser{until: func() { time.Sleep(24 * time.Hour) }}}
		c, _, err := connectPipes(t, d, dest, config)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A server may take some time to check a password, but not for ever.
func TestSlowLogin(t *testing.T) {
	for _, late := range []bool{false, true} {
		config := takesPassword("x")
		config.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
			if time.Sleep(authTime - time.Second); late {
				time.Sleep(2 * time.Second)
			}
			return nil, nil
		}
		config.AddHostKey(newKey(t, "ed25519"))
		synctest.Test(t, func(t *testing.T) {
			d := &Dialer{Prompter: &script{yes: true, passwords: []string{"x"}}}
			c, _, err := connectPipes(t, d, &Destination{User: "bob", Host: "slow"}, config)
			if err == nil {
				_ = c.Close()
			}
			if late != errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("late: %v, and got %v", late, err)
			}
			time.Sleep(time.Minute) // until the server's goroutine, which still sleeps, has returned
		})
	}
}

// A server that answers is never cut off. A silent one is noticed after the time that
// ServerAliveInterval and ServerAliveCountMax set.
func TestKeepAlive(t *testing.T) {
	config := openServer()
	config.AddHostKey(newKey(t, "ed25519"))
	dest := &Destination{User: "bob", Host: "alive", Network: Network{ServerAliveInterval: 15 * time.Second}}
	synctest.Test(t, func(t *testing.T) {
		c, down, err := connectPipes(t, &Dialer{Prompter: &script{yes: true}}, dest, config)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if c.conn.lost() != nil {
			t.Fatalf("cut: %v", c.conn.lost())
		}
		began := time.Now()
		down.mu.Lock()
		down.silent = true
		down.mu.Unlock()
		err = c.Wait()
		if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "no sign of life from alive for 1m0s") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took < 45*time.Second || took > 75*time.Second {
			t.Errorf("noticed after %v", took)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
