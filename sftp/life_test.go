package sftp

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// A peer has a fixed time to log in, whatever it does or omits.
func TestLoginGrace(t *testing.T) {
	stages := map[string]func(s *rawSSH) error{
		"nothing":     func(*rawSSH) error { return nil },
		"half a line": func(s *rawSSH) error { _, err := io.WriteString(s.nc, "SSH-2.0-"); return err },
		"a version":   func(s *rawSSH) error { _, err := io.WriteString(s.nc, rawVersion+"\r\n"); return err },
		"a KEXINIT":   func(s *rawSSH) error { _, _, err := s.hello(); return err },
		"half a packet": func(s *rawSSH) error {
			_, _, err := s.hello()
			_, _ = s.nc.Write([]byte{0, 0, 8, 0, 4})
			return err
		},
		"keys": rawKeys,
		"bytes now and then": func(s *rawSSH) error {
			for {
				if _, err := io.WriteString(s.nc, "x\n"); err != nil {
					return nil
				}
				time.Sleep(time.Second)
			}
		},
		"questions": func(s *rawSSH) error {
			if err := rawKeys(s); err != nil {
				return err
			}
			if err := s.write(message(msgServiceRequest, "ssh-userauth")); err != nil {
				return err
			}
			for {
				if err := s.write(message(msgUserauth, "alice", "ssh-connection", "none")); err != nil {
					return nil
				}
				time.Sleep(time.Second * 50)
			}
		},
	}
	for name, stage := range stages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestServer(t, nil)
				s := newRawSSH(w.connect("192.0.2.1"))
				if err := stage(s); err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, s.nc)
				if took := w.last(1).Duration; took < defaultLoginGrace || took > defaultLoginGrace+2*time.Second {
					t.Errorf("the server waited %v", took)
				}
				if e := w.last(1); !errors.Is(e.Err, errLoginGrace) {
					t.Errorf("it ended by %v", e.Err)
				}
				w.end()
			})
		})
	}
}

func rawKeys(s *rawSSH) error {
	mine, theirs, err := s.hello()
	if err != nil {
		return err
	}
	return s.exchange(mine, theirs)
}

// The time limit for the login also covers the program's own login functions.
func TestSlowLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		w := newTestServer(t, func(w *testServer, s *Server) {
			s.LoginGrace = 10 * time.Second
			s.Login = func(ctx context.Context, _ *ssh.ServerConn) (*Account, error) {
				<-ctx.Done()
				return &Account{Tree: w.tree, Close: func() { closed++ }}, nil
			}
		})
		c := w.login("192.0.2.1")
		_ = c.Wait()
		if e := w.last(1); !errors.Is(e.Err, errLoginGrace) || closed != 1 {
			t.Errorf("it ended by %v, %d accounts were closed", e.Err, closed)
		}
	})
}

// A connection without requests ends after a while, with or without sessions, and stays open as
// long as there are requests.
func TestIdle(t *testing.T) {
	tests := map[string]func(t *testing.T, w *testServer, c *ssh.Client) (want time.Duration){
		"no session": func(*testing.T, *testServer, *ssh.Client) time.Duration { return 0 },
		"a session": func(_ *testing.T, w *testServer, c *ssh.Client) time.Duration {
			w.sftp(c)
			return 0
		},
		"signs of life": func(_ *testing.T, _ *testServer, c *ssh.Client) time.Duration {
			for range 100 {
				time.Sleep(30 * time.Second)
				if _, _, err := c.SendRequest("keepalive@openssh.com", true, nil); err != nil {
					break
				}
			}
			return 0
		},
		"requests": func(t *testing.T, w *testServer, c *ssh.Client) time.Duration {
			p := w.sftp(c)
			for range 20 {
				time.Sleep(10 * time.Minute)
				p.name(wire.AppendRealpath(nil, p.n(), "."))
			}
			return 200 * time.Minute
		},
	}
	for name, use := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestServer(t, nil)
				c := w.login("192.0.2.1")
				used := use(t, w, c)
				_ = c.Wait()
				took := w.last(1).Duration - used
				if took < defaultIdleTimeout || took > defaultIdleTimeout+2*time.Second {
					t.Errorf("it ended after %v", took)
				}
				if e := w.last(1); !errors.Is(e.Err, errIdle) {
					t.Errorf("it ended by %v", e.Err)
				}
			})
		})
	}
	t.Run("never", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newTestServer(t, func(_ *testServer, s *Server) { s.IdleTimeout = -1 })
			p := w.sftp(w.login("192.0.2.1"))
			time.Sleep(1000 * time.Hour)
			p.put("file", "x")
		})
	})
}

// A testListener accepts connections that tests make.
type testListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
	fail  atomic.Pointer[error]
}

func newTestListener() *testListener {
	return &testListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *testListener) Accept() (net.Conn, error) {
	if err := l.fail.Load(); err != nil {
		return nil, *err
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *testListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *testListener) Addr() net.Addr { return &net.TCPAddr{} }

// serve begins to serve. It returns functions that connect and stop, and a channel for the
// result.
func (w *testServer) serve() (dial func() *ssh.Client, stop func(), done <-chan error) {
	l := newTestListener()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	w.conns.Go(func() { ended <- w.server.Serve(ctx, l) })
	w.t.Cleanup(cancel)
	return func() *ssh.Client {
		w.t.Helper()
		client, server := newWires("192.0.2.1")
		l.conns <- server
		c, err := w.dial(client, w.clientConfig())
		if err != nil {
			w.t.Fatal(err)
		}
		return c
	}, cancel, ended
}

// A stopping server disconnects clients that have nothing open, and gives the others a limited
// time to finish.
func TestEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestServer(t, nil)
		dial, stop, done := w.serve()
		idle, working, lazy := dial(), dial(), dial()
		w.sftp(idle)
		p, q := w.sftp(working), w.sftp(lazy)
		h := p.open("file", openAnew)
		q.open("other", openAnew)
		began := time.Now()
		stop()
		_ = idle.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the idle connection lasted %v", took)
		}
		time.Sleep(5 * time.Second)
		for i := range 10 {
			p.write(h, int64(i), "x")
		}
		p.close(h) // the answer still arrives
		_ = working.Wait()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the working connection lasted %v", took)
		}
		_ = lazy.Wait()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < defaultGrace || took > defaultGrace+2*time.Second {
			t.Errorf("the server took %v to end", took)
		}
		for _, e := range w.ended {
			if !errors.Is(e.Err, errEnding) {
				t.Errorf("a connection ended by %v", e.Err)
			}
		}
	})
}

// A store that hangs does not prevent the server from stopping.
func TestStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTree{delay: time.Hour}
		w := newTestServer(t, func(w *testServer, s *Server) {
			slow.Tree = w.tree
			s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) { return &Account{Tree: slow}, nil }
		})
		dial, stop, done := w.serve()
		p := w.sftp(dial())
		h := p.open("file", openAnew|wire.OpenRead)
		p.send(wire.AppendRead(nil, p.n(), h, 0, 1))
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if err := <-done; !errors.Is(err, errStuck) {
			t.Errorf("it ends by %v", err)
		}
		if took := time.Since(began); took > defaultGrace+stuckGrace+time.Second {
			t.Errorf("it took %v", took)
		}
		time.Sleep(2 * time.Hour) // until the store answers, which ends everything
	})
}

type temporaryError struct{ temporary bool }

func (e temporaryError) Error() string   { return "accepting fails" }
func (e temporaryError) Temporary() bool { return e.temporary }

// Accepting resumes after descriptors have run out for a while. It ends with an error if the
// listener breaks.
func TestAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestServer(t, nil)
		l := newTestListener()
		passing, lasting := error(temporaryError{true}), error(temporaryError{false})
		l.fail.Store(&passing)
		done := make(chan error, 1)
		go func() { done <- w.server.Serve(t.Context(), l) }()
		time.Sleep(time.Minute)
		l.fail.Store(nil)
		client, server := newWires("192.0.2.1")
		l.conns <- server
		c, err := w.dial(client, w.clientConfig())
		if err != nil {
			t.Fatal(err)
		}
		l.fail.Store(&lasting)
		client2, server2 := newWires("192.0.2.1")
		l.conns <- server2 // the last accepted connection
		client2.Close()
		if err := <-done; !errors.Is(err, lasting) {
			t.Errorf("it ends by %v", err)
		}
		_ = c.Wait()
	})
	if err := new(Server).Serve(t.Context(), newTestListener()); err == nil {
		t.Error("a server without anything serves")
	}
	client, server := newWires("192.0.2.1")
	var why error
	(&Server{TurnedAway: func(_ net.Addr, err error) { why = err }}).ServeConn(t.Context(), server)
	if _, err := client.Read(make([]byte, 1)); err != io.EOF || why == nil {
		t.Errorf("a server without anything serves a connection: %v, %v", err, why)
	}
}

// A panic ends one connection, is counted, and leaves nothing behind.
func TestPanics(t *testing.T) {
	tests := map[string]struct {
		set  func(w *testServer, s *Server)
		use  func(p *sftpPeer)
		late bool // the panic happens after the login
	}{
		"configuration": {func(_ *testServer, s *Server) {
			s.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) { panic("oh") }
		}, nil, false},
		"password": {func(w *testServer, s *Server) {
			s.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
				c := w.config()
				c.PasswordCallback = func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { panic("oh") }
				return c, nil
			}
		}, nil, false},
		"login": {func(_ *testServer, s *Server) {
			s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) { panic("oh") }
		}, nil, false},
		"connected":    {func(_ *testServer, s *Server) { s.Connected = func(*Conn) { panic("oh") } }, nil, true},
		"disconnected": {func(_ *testServer, s *Server) { s.Disconnected = func(*Conn) { panic("oh") } }, func(*sftpPeer) {}, true},
		"started": {func(_ *testServer, s *Server) { s.Started = func(*Transfer) { panic("oh") } },
			func(p *sftpPeer) { p.send(wire.AppendOpen(nil, p.n(), "f", openAnew, wire.Attrs{})) }, true},
		"ended": {func(_ *testServer, s *Server) { s.Ended = func(*Transfer) { panic("oh") } },
			func(p *sftpPeer) {
				h := p.open("f", openAnew)
				p.open("g", openAnew)
				p.open("h", openAnew)
				p.send(wire.AppendClose(nil, p.n(), h))
			}, true},
		"audit": {func(_ *testServer, s *Server) { s.Audit = func(*Operation) { panic("oh") } },
			func(p *sftpPeer) { p.send(wire.AppendMkdir(nil, p.n(), "d", wire.Attrs{})) }, true},
		"store": {func(w *testServer, s *Server) {
			s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) {
				return &Account{Tree: &slowTree{Tree: w.tree, panics: true}}, nil
			}
		}, func(p *sftpPeer) {
			h := p.open("f", openAnew|wire.OpenRead)
			p.send(wire.AppendRead(nil, p.n(), h, 0, 1))
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestServer(t, nil)
				quiet := w.login("192.0.2.2")
				p := w.sftp(quiet)
				test.set(w, w.server)
				nc := w.connect("192.0.2.1")
				c, err := w.dial(nc, w.clientConfig())
				if (err == nil) != test.late && name != "login" {
					t.Errorf("login: %v", err)
				}
				if err == nil && test.use != nil {
					test.use(w.sftp(c))
				}
				if name == "disconnected" {
					c.Close()
				} else if c != nil {
					_ = c.Wait()
				}
				synctest.Wait()
				if n := w.server.Counters().Panics; n < 1 {
					t.Errorf("%d panics are counted", n)
				}
				if name != "disconnected" {
					e := w.last(1)
					if pe, ok := errors.AsType[*panicError](e.Err); !ok || !strings.Contains(string(pe.stack), "panic") {
						t.Errorf("it ended by %v", e.Err)
					}
				}
				if got := p.name(wire.AppendRealpath(nil, p.n(), "x")); got != "/x" {
					t.Error("another connection is hurt")
				}
				w.end()
			})
		})
	}
}

// The hooks are called for each connection, with the reason for its end.
func TestConns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		var connected []*Conn
		w := newTestServer(t, func(w *testServer, s *Server) {
			s.Connected = func(c *Conn) {
				connected = append(connected, c)
				c.Value = "mine"
			}
			s.Login = func(_ context.Context, c *ssh.ServerConn) (*Account, error) {
				if c.User() == "bob" {
					return nil, errors.New("not today")
				}
				return &Account{User: "renamed", Tree: w.tree, Close: func() { closed++ }}, nil
			}
		})
		c := w.login("192.0.2.1")
		p := w.sftp(c)
		time.Sleep(time.Minute)
		p.put("file", "12345")
		c.Close()
		e := w.last(1)
		if e.Err != nil || e.User != "renamed" || e.Duration < time.Minute || e.Received() != 5 || e.Value != "mine" ||
			!strings.HasPrefix(e.Peer.String(), "192.0.2.1:") || !strings.HasPrefix(e.Client, "SSH-2.0-") || e.Account == nil {
			t.Errorf("reported %+v", e)
		}
		if len(connected) != 1 || connected[0] != e || closed != 1 {
			t.Errorf("connected: %v, closed %d", connected, closed)
		}
		config := w.clientConfig()
		config.User = "bob"
		if c, err := w.dial(w.connect("192.0.2.1"), config); err == nil {
			if _, _, err := c.OpenChannel("session", nil); err == nil || !strings.Contains(err.Error(), loginFailed) {
				t.Errorf("a user whose files cannot be opened gets %v", err)
			}
			c.Close()
			_ = c.Wait()
		}
		if e := w.last(2); e.Err == nil || !strings.Contains(e.Err.Error(), "not today") || e.User != "bob" || e.Account != nil {
			t.Errorf("reported %+v", e)
		}
		if n := w.server.Counters(); n.Logins != 1 || n.Failures != 1 || n.Received != 5 {
			t.Errorf("counted: %+v", n)
		}
		w.server.Login = func(context.Context, *ssh.ServerConn) (*Account, error) { return nil, nil }
		if c, err := w.dial(w.connect("192.0.2.1"), w.clientConfig()); err == nil {
			_ = c.Wait()
		}
		if e := w.last(3); e.Err == nil {
			t.Error("an account without files logs in")
		}
		if c, err := w.dial(w.connect("192.0.2.1"), w.clientConfig()); err == nil {
			_ = c.Wait() // the server closes the connection, which is not a failure here
		}
	})
}

var _ store.Tree = (*slowTree)(nil)
