package sftp

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
)

// A wireEnd is one end of a connection in memory, also for bubbles. Unlike net.Pipe it buffers
// some bytes, as a socket does.
type wireEnd struct {
	in, out       *wireStream
	local, remote net.Addr
}

// A wireStream is one direction of such a connection.
type wireStream struct {
	mu     sync.Mutex
	change *sync.Cond
	b      []byte // bytes that are not read yet; guarded by mu
	room   int    // capacity in bytes
	closed bool   // guarded by mu
	reset  bool   // the peer has reset the connection; guarded by mu
	due    bool   // a deadline for writers has passed; guarded by mu
	wrote  int64  // number of bytes written so far; guarded by mu
}

func newWireStream(room int) *wireStream {
	s := &wireStream{room: room}
	s.change = sync.NewCond(&s.mu)
	return s
}

// newWires returns the two ends of a connection from an address.
func newWires(from string) (client, server *wireEnd) {
	up, down := newWireStream(1<<20), newWireStream(1<<20)
	c := net.TCPAddrFromAddrPort(mustAddr(from + ":50000"))
	s := net.TCPAddrFromAddrPort(mustAddr("192.0.2.254:22"))
	return &wireEnd{in: down, out: up, local: c, remote: s}, &wireEnd{in: up, out: down, local: s, remote: c}
}

func (w *wireEnd) Read(p []byte) (int, error) {
	s := w.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.b) == 0 {
		switch {
		case s.reset:
			return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
		case s.closed:
			return 0, io.EOF
		}
		s.change.Wait()
	}
	n := race.Copy(p, s.b)
	s.b = s.b[n:]
	s.change.Broadcast()
	return n, nil
}

func (w *wireEnd) Write(p []byte) (n int, err error) {
	s := w.out
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		switch free := s.room - len(s.b); {
		case s.closed:
			return n, io.ErrClosedPipe
		case s.due:
			return n, os.ErrDeadlineExceeded
		case free <= 0:
			s.change.Wait()
		default:
			some := min(free, len(p))
			at := len(s.b)
			s.b = slices.Grow(s.b, some)[:at+some]
			race.Copy(s.b[at:], p)
			n, p = n+some, p[some:]
			s.wrote += int64(some)
			s.change.Broadcast()
		}
	}
	return n, nil
}

func (w *wireEnd) Close() error {
	for _, s := range []*wireStream{w.in, w.out} {
		s.mu.Lock()
		s.closed = true
		s.change.Broadcast()
		s.mu.Unlock()
	}
	return nil
}

// reset closes the connection as the system does if received data is unread.
func (w *wireEnd) reset() {
	w.out.mu.Lock()
	w.out.reset = true
	w.out.mu.Unlock()
	_ = w.Close()
}

func (w *wireEnd) LocalAddr() net.Addr             { return w.local }
func (w *wireEnd) RemoteAddr() net.Addr            { return w.remote }
func (w *wireEnd) SetDeadline(t time.Time) error   { return w.SetWriteDeadline(t) }
func (w *wireEnd) SetReadDeadline(time.Time) error { return nil }
func (w *wireEnd) SetWriteDeadline(t time.Time) error {
	time.AfterFunc(time.Until(t), func() {
		w.out.mu.Lock()
		defer w.out.mu.Unlock()
		w.out.due = true
		w.out.change.Broadcast()
	})
	return nil
}

// A directServer is a server without SSH: it serves sessions of accounts over pipes.
type directServer struct {
	t       testing.TB
	server  *Server
	account *Account
}

// newDirectServer makes a server with an account in memory. set may be nil; it changes the server
// and the account before they are used.
func newDirectServer(t testing.TB, set func(s *Server, a *Account)) *directServer {
	repeat.OnFailure(t)
	d := &directServer{t: t, server: &Server{}, account: &Account{User: "alice", Tree: store.Mem(0)}}
	if set != nil {
		set(d.server, d.account)
	}
	d.server.shared.once.Do(d.server.init)
	return d
}

// A directConn is a connection of a directServer.
type directConn struct {
	userConn
	work sync.WaitGroup // waits for its sessions
}

// connect makes a connection of the account.
func (d *directServer) connect() *directConn {
	c := new(directConn)
	c.begin(context.Background(), d.server, nil, nil)
	c.enter(d.account)
	d.t.Cleanup(func() {
		c.cancel(errEnding)
		c.work.Wait()
		c.leave()
		if n := c.handles.Load(); n != 0 {
			d.t.Errorf("%d handles are left", n)
		}
		if n := len(d.server.shared.pending.byKey); n != 0 {
			d.t.Errorf("%d uploads are left", n)
		}
	})
	return c
}

// session begins a session of a connection.
func (d *directServer) session(c *directConn) *sftpPeer {
	client, server := newWires("192.0.2.1")
	c.work.Go(func() {
		defer server.Close()
		_ = c.serveSession(c.ctx, server)
	})
	stop := context.AfterFunc(c.ctx, func() { server.Close() })
	d.t.Cleanup(func() { client.Close(); stop() })
	p := &sftpPeer{t: d.t, rw: client}
	p.begin()
	return p
}

// hangUp closes a session's connection as if the peer had died, and waits until the session is over.
func (p *sftpPeer) hangUp(c *directConn) {
	p.rw.(*wireEnd).Close()
	c.cancel(errLeft)
	c.work.Wait()
}

// newTestSession returns a session on its own connection.
func newTestSession(t testing.TB, set func(s *Server, a *Account)) *sftpPeer {
	d := newDirectServer(t, set)
	return d.session(d.connect())
}

// A testServer is a server with SSH, in memory.
type testServer struct {
	t      testing.TB
	server *Server
	tree   store.Tree
	key    ssh.Signer // the host key
	conns  sync.WaitGroup
	cancel context.CancelFunc
	ctx    context.Context

	mu    sync.Mutex
	more  *sync.Cond        // signaled when a connection has ended; its lock is mu
	ended []*Conn           // the arguments of Disconnected; guarded by mu
	came  []*ssh.ServerConn // connections that have logged in; guarded by mu
}

const testPassword = "correct horse"

// newTestServer makes a server to which any client with the password can log in. set may change
// it.
func newTestServer(t testing.TB, set func(w *testServer, s *Server)) *testServer {
	repeat.OnFailure(t)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &testServer{t: t, tree: store.Mem(0)}
	w.more = sync.NewCond(&w.mu)
	if w.key, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	w.server = &Server{
		SSH:   func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return w.config(), nil },
		Login: func(context.Context, *ssh.ServerConn) (*Account, error) { return &Account{Tree: w.tree}, nil },
		Disconnected: func(c *Conn) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.ended = append(w.ended, c)
			w.more.Broadcast()
		},
	}
	if set != nil {
		set(w, w.server)
	}
	login := w.server.Login
	w.server.Login = func(ctx context.Context, sc *ssh.ServerConn) (*Account, error) {
		w.mu.Lock()
		w.came = append(w.came, sc)
		w.mu.Unlock()
		return login(ctx, sc)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	t.Cleanup(w.end)
	return w
}

// end closes all connections, and waits until the server has finished with them.
func (w *testServer) end() {
	w.cancel()
	w.conns.Wait()
	for _, sc := range w.came {
		drainRequests(w.t, sc)
	}
	if c := w.server.Counters(); c.Conns != 0 || c.Handles != 0 || c.Sessions != 0 {
		w.t.Errorf("left behind: %+v", c)
	}
}

func (w *testServer) config() *ssh.ServerConfig {
	c := &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if string(password) != testPassword {
			return nil, errors.New("wrong password")
		}
		return &ssh.Permissions{}, nil
	}}
	c.AddHostKey(w.key)
	return c
}

// connect connects, and returns the client's end.
func (w *testServer) connect(from string) *wireEnd {
	client, server := newWires(from)
	w.conns.Go(func() { w.server.ServeConn(w.ctx, server) })
	w.t.Cleanup(func() { client.Close() })
	return client
}

func (w *testServer) clientConfig() *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User:            "alice",
		Auth:            []ssh.AuthMethod{ssh.Password(testPassword)},
		HostKeyCallback: ssh.FixedHostKey(w.key.PublicKey()),
	}
}

// dial logs in over a connection.
func (w *testServer) dial(nc net.Conn, config *ssh.ClientConfig) (*ssh.Client, error) {
	conn, channels, requests, err := ssh.NewClientConn(nc, "test", config)
	if err != nil {
		return nil, err
	}
	c := ssh.NewClient(conn, channels, requests)
	w.t.Cleanup(func() { c.Close() })
	return c, nil
}

// login logs in from an address.
func (w *testServer) login(from string) *ssh.Client {
	w.t.Helper()
	return w.loginOver(w.connect(from))
}

// loginOver logs in over a connection.
func (w *testServer) loginOver(nc net.Conn) *ssh.Client {
	w.t.Helper()
	c, err := w.dial(nc, w.clientConfig())
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// sftp begins a session on a connection.
func (w *testServer) sftp(c *ssh.Client) *sftpPeer {
	w.t.Helper()
	ch := w.subsystem(c)
	p := &sftpPeer{t: w.t, rw: ch}
	p.begin()
	return p
}

func (w *testServer) subsystem(c *ssh.Client) ssh.Channel {
	w.t.Helper()
	ch, requests, err := c.OpenChannel("session", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	go ssh.DiscardRequests(requests)
	if ok, err := ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"})); !ok || err != nil {
		w.t.Fatalf("the subsystem is refused: %v, %v", ok, err)
	}
	return ch
}

// last waits until n connections have ended, and returns the argument of the last Disconnected.
func (w *testServer) last(n int) *Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.ended) < n {
		w.more.Wait()
	}
	return w.ended[n-1]
}

// testBytes returns n bytes that occur nowhere else.
func testBytes(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return string(b)
}

func mustAddr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
