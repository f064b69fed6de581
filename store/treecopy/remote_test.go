package treecopy_test

import (
	"context"
	"crypto/ed25519"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
)

// A line is one direction of a connection. Written data arrives later, and after a number of bytes
// nothing arrives. Inside a bubble its time is virtual.
type line struct {
	latency time.Duration
	cut     int64 // number of bytes after which no data arrives; 0 means that all data arrives

	mu      sync.Mutex
	changed *sync.Cond
	queue   []parcel // data that has been written but not read; guarded by mu
	written int64    // number of bytes written so far; guarded by mu
	closed  bool     // nothing more can be written; guarded by mu
	broken  bool     // nothing more can be read either; guarded by mu
}

type parcel struct {
	at time.Time
	b  []byte
}

func newLine(latency time.Duration, cut int64) *line {
	l := &line{latency: latency, cut: cut}
	l.changed = sync.NewCond(&l.mu)
	return l
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, io.ErrClosedPipe
	}
	keep := b
	if l.cut > 0 {
		keep = b[:min(int64(len(b)), max(0, l.cut-l.written))]
	}
	l.written += int64(len(b))
	if len(keep) > 0 {
		kept := make([]byte, len(keep))
		race.Copy(kept, keep)
		l.queue = append(l.queue, parcel{time.Now().Add(l.latency), kept})
	}
	l.closed = l.closed || l.cut > 0 && l.written >= l.cut
	l.changed.Broadcast()
	return len(b), nil
}

func (l *line) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.broken:
			return 0, io.ErrClosedPipe
		case len(l.queue) > 0:
			if wait := time.Until(l.queue[0].at); wait > 0 {
				l.mu.Unlock()
				time.Sleep(wait)
				l.mu.Lock()
				continue
			}
			n := race.Copy(b, l.queue[0].b)
			if l.queue[0].b = l.queue[0].b[n:]; len(l.queue[0].b) == 0 {
				l.queue = l.queue[1:]
			}
			return n, nil
		case l.closed:
			return 0, io.EOF
		}
		l.changed.Wait()
	}
}

func (l *line) end(now bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.broken = true, l.broken || now
	l.changed.Broadcast()
}

// A lineConn is one end of a connection.
type lineConn struct{ in, out *line }

func (c lineConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c lineConn) Write(b []byte) (int, error) { return c.out.Write(b) }
func (c lineConn) Close() error {
	c.out.end(false)
	c.in.end(true)
	return nil
}
func (lineConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (lineConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (lineConn) SetDeadline(time.Time) error      { return nil }
func (lineConn) SetReadDeadline(time.Time) error  { return nil }
func (lineConn) SetWriteDeadline(time.Time) error { return nil }

// A host serves a tree over SFTP.
type host struct {
	server sftp.Server
	signer ssh.Signer
	wait   sync.WaitGroup
	ctx    context.Context
	stop   context.CancelFunc
}

func newHost(t testing.TB, tree store.Tree, hidden bool) *host {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{}
	if h.signer, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(h.signer)
	h.server.SSH = func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return config, nil }
	h.server.Login = func(context.Context, *ssh.ServerConn) (*sftp.Account, error) {
		return &sftp.Account{User: "me", Tree: tree, Hidden: hidden}, nil
	}
	h.server.IdleTimeout = -1
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// dial connects a client over a line, which is cut after a number of bytes in each direction,
// unless that is 0.
func (h *host) dial(t testing.TB, latency time.Duration, cutIn, cutOut int64) *sftpclient.Client {
	t.Helper()
	in, out := newLine(latency, cutIn), newLine(latency, cutOut)
	h.wait.Go(func() { h.server.ServeConn(h.ctx, lineConn{out, in}) })
	conn, channels, requests, err := ssh.NewClientConn(lineConn{in, out}, "host", &ssh.ClientConfig{
		User: "me", HostKeyCallback: ssh.FixedHostKey(h.signer.PublicKey()),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := ssh.NewClient(conn, channels, requests)
	c, err := sftpclient.New(t.Context(), s, sftpclient.Config{Stall: -1})
	if err != nil {
		_ = s.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = s.Close()
	})
	return c
}

// end ends the host, and waits for its connections.
func (h *host) end() {
	h.stop()
	h.wait.Wait()
}

// remoteTree returns a tree on its own server, backed by the given tree.
func remoteTree(t testing.TB, tree store.Tree, hidden bool) store.Tree {
	h := newHost(t, tree, hidden)
	t.Cleanup(h.end) // runs after the client's cleanup
	return h.dial(t, 0, 0, 0).Store("/")
}
