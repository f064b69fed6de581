package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/internal/sshconn"
)

const (
	// These are the shortest and longest pause before accepting again, after the process had no
	// file descriptors left.
	firstAcceptDelay = 5 * time.Millisecond
	maxAcceptDelay   = time.Second

	// stuckGrace is how long a server that is shutting down waits for store calls that do not
	// return, as with a network file system whose server is unreachable.
	stuckGrace = 20 * time.Second
)

// errStuck means that Serve returned although calls to the store or to hooks had not returned.
var errStuck = errors.New("sftp: the store does not answer")

// Serve accepts connections until ctx ends or accepting fails. Then it closes l and all connections
// without an open file. On the other connections, clients have the time [Server].Grace to close
// their files. Serve returns when the last connection is closed. It returns the error from
// accepting, or nil if ctx has ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	if err := s.check(); err != nil {
		return err
	}
	// Connections are closed in two steps. When the context `soft` ends, they may only finish their
	// work. When the context `hard` ends, they are closed at once.
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(errEnding)
	soft, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()

	var conns sync.WaitGroup
	err := s.accept(ctx, l, func(c net.Conn) {
		conns.Go(func() { s.serve(hard, soft, c) })
	})
	end()
	over := make(chan struct{})
	go func() {
		conns.Wait()
		close(over)
	}()
	select {
	case <-over:
		return err
	case <-time.After(s.grace()):
	}
	cut(errEnding)
	select {
	case <-over:
		return err
	case <-time.After(stuckGrace):
	}
	return errors.Join(err, errStuck)
}

// accept passes each new connection to the function `take`. It returns nil when ctx has ended.
func (s *Server) accept(ctx context.Context, l net.Listener, take func(net.Conn)) error {
	delay := time.Duration(0)
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			delay = 0
			take(c)
		case ctx.Err() != nil:
			return nil
		case !isTemporary(err):
			return err
		default:
			delay = min(max(firstAcceptDelay, 2*delay), maxAcceptDelay)
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(delay):
			}
		}
	}
}

// isTemporary reports whether accepting may be tried again after an error: the process has no file
// descriptors left, or a peer left before its connection was accepted. It uses the Temporary method
// because the standard library has no other way to distinguish these errors from a broken listener.
func isTemporary(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

// ServeConn serves one connection, closes it, and returns when all its work is done. When ctx ends,
// it closes the connection at once, even if files are open.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) { s.serve(ctx, ctx, c) }

// serve is like ServeConn, but has two contexts. After `soft` ends, the connection may finish its
// work. When `hard` ends, the connection is closed at once.
func (s *Server) serve(hard, soft context.Context, nc net.Conn) {
	defer nc.Close()
	s.shared.once.Do(s.init)
	var visit *penalty.Visit
	err := s.check()
	if err == nil {
		visit, err = s.enter(soft, nc)
	}
	if err != nil {
		s.shared.counts.turnedAway.Add(1)
		sendReason(nc, err)
		if s.TurnedAway != nil {
			s.TurnedAway(nc.RemoteAddr(), err)
		}
		return
	}
	defer func() { s.lockedOut(nc.RemoteAddr(), visit.End(time.Now())) }()
	tune(nc)
	c := newServerConn(s, hard, nc, visit)
	defer c.cancel(errEnding)
	c.serve(soft)
}

// ServeSession serves one SFTP session of an account over rw, without SSH: the program provides the
// transport. For example, an sshd runs the program as its subsystem, and rw is the standard input
// and output. The Server's fields SSH and Login may be nil, and its limits on connections do not
// apply.
//
// ServeSession closes rw and returns when the session is over. It returns nil if the peer closed
// the session. When ctx ends, ServeSession closes rw, which has to interrupt a pending Read and
// Write. Files that are still open then are abandoned: see [Account].Hidden. The [Conn] that the
// hooks receive has the addresses of rw if that is a net.Conn, and no addresses otherwise.
func (s *Server) ServeSession(ctx context.Context, rw io.ReadWriteCloser, a *Account) error {
	defer rw.Close()
	if err := a.check(); err != nil {
		return fmt.Errorf("sftp: serving a session: %w", err)
	}
	s.shared.once.Do(s.init)
	c := new(userConn)
	var peer, local net.Addr
	if nc, ok := rw.(net.Conn); ok {
		peer, local = nc.RemoteAddr(), nc.LocalAddr()
	}
	c.begin(ctx, s, peer, local)
	defer c.cancel(errLeft)
	defer context.AfterFunc(c.ctx, func() { _ = rw.Close() })()
	err := c.serveAccount(rw, a)
	c.reportEnd(err)
	return err
}

// serveAccount serves a session that needs no login.
func (c *userConn) serveAccount(rw io.ReadWriter, a *Account) (err error) {
	defer c.recover(&err)
	c.enter(a)
	defer c.leave()
	defer c.watch()()
	return c.reason(c.serveSession(c.ctx, rw))
}

// enter admits a connection, unless a limit forbids it. It may have to wait until other connections
// have logged in.
func (s *Server) enter(ctx context.Context, nc net.Conn) (*penalty.Visit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.loginGrace())
	defer cancel()
	return s.shared.guard.Enter(ctx, time.Now, addressOf(nc.RemoteAddr()))
}

// sayTime is the time limit for sending a rejected client the reason. The reason is a short line,
// which nearly always fits into the system's send buffer.
const sayTime = time.Second

// sendReason sends a rejected client the reason, as OpenSSH does. It can do so before the
// handshake: a server may send other lines before its version line, and clients show them (RFC
// 4253, section 4.2).
func sendReason(nc net.Conn, err error) {
	r, ok := errors.AsType[*penalty.Refusal](err)
	if !ok {
		return
	}
	line := "Too many connections\r\n"
	if r.Cause == penalty.Penalized {
		line = "Not allowed at this time\r\n"
	}
	if nc.SetWriteDeadline(time.Now().Add(sayTime)) == nil {
		_, _ = io.WriteString(nc, line) // an error means only that the client is gone already
	}
}

// addressOf returns the IP address of a peer. If the peer has no IP address, the result is the zero
// Addr, which is invalid.
func addressOf(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return a.AddrPort().Addr()
	}
	p, _ := netip.ParseAddrPort(a.String())
	return p.Addr()
}

// tune sets the options of a TCP connection. c may wrap that connection.
func tune(c net.Conn) {
	if t, ok := c.(interface{ SetNoDelay(bool) error }); ok {
		_ = t.SetNoDelay(true) // an error is harmless: the connection works, but is slower
	}
	sshconn.WidenSend(c)
}
