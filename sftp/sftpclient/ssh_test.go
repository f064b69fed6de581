package sftpclient

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/sshconn"
)

// An sshHost is an SSH server in front of a fakeServer.
type sshHost struct {
	p        *fakeServer
	config   *ssh.ServerConfig
	signer   ssh.Signer
	sessions int  // per connection; 0 means no limit
	noSFTP   bool // refuse the subsystem
	chatty   bool // writes to stderr, and sends requests
	leaves   bool // ends the connection after the login

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	wait  sync.WaitGroup
}

func newSSHHost(t testing.TB, p *fakeServer) *sshHost {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	h := &sshHost{p: p, signer: signer}
	h.config = &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if string(password) != "secret" {
			return nil, errors.New("wrong")
		}
		return nil, nil
	}}
	h.config.AddHostKey(signer)
	return h
}

func (h *sshHost) clientConfig(password string) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: "me", Auth: []ssh.AuthMethod{ssh.Password(password)}, HostKeyCallback: ssh.FixedHostKey(h.signer.PublicKey()),
	}
}

func (h *sshHost) serve(conn net.Conn) {
	h.mu.Lock()
	h.conns = append(h.conns, conn)
	h.mu.Unlock()
	defer conn.Close()
	s, channels, requests, err := ssh.NewServerConn(conn, h.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	if h.leaves {
		return
	}
	open := 0
	for n := range channels {
		if h.sessions > 0 && open == h.sessions {
			_ = n.Reject(ssh.ConnectionFailed, "open failed")
			continue
		}
		ch, requests, err := n.Accept()
		if err != nil {
			return
		}
		open++
		h.wait.Go(func() {
			for r := range requests {
				ok := r.Type == "subsystem" && !h.noSFTP
				_ = r.Reply(ok, nil)
				if ok {
					h.wait.Go(func() { h.session(ch) })
				}
			}
		})
	}
	_ = s.Wait()
}

func (h *sshHost) session(ch ssh.Channel) {
	if h.chatty {
		h.wait.Go(func() {
			for range 100 {
				if _, err := ch.Stderr().Write(make([]byte, 50_000)); err != nil {
					return
				}
				_, _ = ch.SendRequest("keepalive@openssh.com", true, nil)
			}
		})
	}
	h.p.mu.Lock()
	h.p.opened++
	s := &fakeSession{p: h.p, n: h.p.opened, handles: map[string]any{}}
	h.p.mu.Unlock()
	s.serveOver(ch)
	_ = ch.Close()
}

// listen serves on a loopback port.
func (h *sshHost) listen(t testing.TB) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.wait.Go(func() { h.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		h.mu.Lock()
		for _, c := range h.conns {
			_ = c.Close()
		}
		h.mu.Unlock()
		h.wait.Wait()
	})
	return l.Addr().String()
}

func TestDial(t *testing.T) {
	p := newFakeServer()
	h := newSSHHost(t, p)
	h.chatty = true
	addr := h.listen(t)
	data := pattern(9<<20, 1)
	p.put(t, "f", data)
	for _, config := range []Config{{}, {Delay: true}, {Requests: 1}, {Conns: 3, Sessions: 1}} {
		c, err := Dial(t.Context(), addr, h.clientConfig("secret"), config)
		if err != nil {
			t.Fatal(err)
		}
		if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
			t.Errorf("%+v: %v", config, err)
		}
		if err := uploadAll(t.Context(), c, "g", data); err != nil {
			t.Errorf("%+v: %v", config, err)
		}
		if !bytes.Equal(p.get(t, "g"), data) {
			t.Errorf("%+v: the server has other bytes", config)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// If the server closes the connection after the login, the client does not wait for answers in any
// step.
func TestDialLeft(t *testing.T) {
	h := newSSHHost(t, newFakeServer())
	h.leaves = true
	addr := h.listen(t)
	for range 200 {
		_, err := Dial(t.Context(), addr, h.clientConfig("secret"), Config{Timeout: time.Minute})
		if err == nil || errors.Is(err, ErrStalled) || errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("error %v", err)
		}
	}
}

func TestDialErrors(t *testing.T) {
	h := newSSHHost(t, newFakeServer())
	addr := h.listen(t)
	if _, err := Dial(t.Context(), addr, h.clientConfig("wrong"), Config{}); err == nil || !strings.Contains(err.Error(), "log in to "+addr) {
		t.Errorf("with a wrong password: %v", err)
	}
	other := newSSHHost(t, newFakeServer())
	if _, err := Dial(t.Context(), addr, other.clientConfig("secret"), Config{}); err == nil || !strings.Contains(err.Error(), "host key") {
		t.Errorf("with another host key: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(ctx, addr, h.clientConfig("secret"), Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}

	// These servers accept the connection, and send nothing or something wrong.
	for _, says := range []string{"", "SSH-2.0-", "HTTP/1.0 400 Bad Request\r\n\r\n"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, says)
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		})
		_, err = Dial(t.Context(), l.Addr().String(), h.clientConfig("secret"), Config{Timeout: 200 * time.Millisecond})
		if !errors.Is(err, ErrStalled) {
			t.Errorf("a server that says %q: %v", says, err)
		}
		_ = l.Close()
		wg.Wait()
	}
}

// withSSHHost runs f in a bubble with an x/crypto client over a pipe with latency.
func withSSHHost(t *testing.T, configure func(*sshHost), f func(t *testing.T, h *sshHost, s *ssh.Client)) {
	synctest.Test(t, func(t *testing.T) {
		h := newSSHHost(t, newFakeServer())
		if configure != nil {
			configure(h)
		}
		k := &netLink{latency: tripTime / 2, window: 64 << 20}
		a, b := newNetStreams(k)
		h.wait.Go(func() { h.serve(sshconn.New(streamConn{b})) })
		s, err := login(t.Context(), sshconn.New(streamConn{a}), "host:22", h.clientConfig("secret"))
		if err != nil {
			t.Fatal(err)
		}
		f(t, h, s)
		_ = s.Close()
		h.wait.Wait()
	})
}

// A streamConn makes a stream a net.Conn.
type streamConn struct{ *netStream }

func (streamConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (streamConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (streamConn) SetDeadline(time.Time) error      { return nil }
func (streamConn) SetReadDeadline(time.Time) error  { return nil }
func (streamConn) SetWriteDeadline(time.Time) error { return nil }

// SSH adds no round trips, and further sessions raise the throughput beyond that of one channel's
// window.
func TestOverSSH(t *testing.T) {
	withSSHHost(t, nil, func(t *testing.T, h *sshHost, s *ssh.Client) {
		p := h.p
		p.link.latency = tripTime / 2
		data := pattern(40<<20, 1)
		p.put(t, "f", data)
		var c *Client
		var err error
		if got := trips(p, func() { c, err = New(t.Context(), s, Config{}) }); got > 2 || err != nil {
			t.Fatalf("a session took %.2f round trips, %v", got, err)
		}
		took := trips(p, func() { err = fetchAndCompare(t.Context(), c, "f", data) })
		if err != nil {
			t.Error(err)
		}
		// One session would take 20 round trips.
		if took > 15 || c.measure().Sessions < 4 {
			t.Errorf("40 MiB took %.1f round trips on %d sessions", took, c.measure().Sessions)
		}
		if err := uploadAll(t.Context(), c, "g", data); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "g"), data) {
			t.Error("the server has other bytes")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := s.NewSession(); err != nil {
			t.Errorf("the connection was closed with the client: %v", err)
		}
	})
}

// The client works with a server that permits only few sessions.
func TestOverSSHWithFewSessions(t *testing.T) {
	for _, sessions := range []int{1, 2} {
		withSSHHost(t, func(h *sshHost) { h.sessions = sessions }, func(t *testing.T, h *sshHost, s *ssh.Client) {
			c, err := New(t.Context(), s, Config{})
			if err != nil {
				t.Fatal(err)
			}
			data := pattern(20<<20, 1)
			h.p.put(t, "f", data)
			if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
				t.Error(err)
			}
			if n := c.measure().Sessions; n != sessions {
				t.Errorf("%d sessions, and the server opens %d sessions", n, sessions)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWithoutSubsystem(t *testing.T) {
	withSSHHost(t, func(h *sshHost) { h.noSFTP = true }, func(t *testing.T, h *sshHost, s *ssh.Client) {
		begin := time.Now()
		_, err := New(t.Context(), s, Config{})
		if err == nil || !strings.Contains(err.Error(), "subsystem") || time.Since(begin) > DefaultTimeout {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}
