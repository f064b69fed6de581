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
	// Bounds of the pause after accepting failed because the process has no descriptors left.
	firstAcceptDelay = 5 * time.Millisecond
	maxAcceptDelay   = time.Second

	// stuckGrace is how long a server that is shutting down waits for a store whose calls do not
	// return, such as a network file system whose server is gone.
	stuckGrace = 20 * time.Second
)

// errStuck means that a server ended although calls to its store or its hooks had not returned.
var errStuck = errors.New("sftp: the store does not answer")

// Serve accepts connections until ctx ends or accepting fails. Then it closes l, ends the
// connections that have no file open, gives the others the Grace to close their files, and returns
// when the last connection is over. It returns the error from accepting, or nil if ctx has ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	if err := s.check(); err != nil {
		return err
	}
	// Ending a connection takes two steps: soft lets it finish its work, and hard closes it.
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

// accept takes connections. It returns nil when ctx has ended.
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

// isTemporary reports whether accepting may continue after an error: the process has no descriptors
// left, or a peer left before its connection was accepted. The standard library offers no other way
// to tell these errors from a broken listener.
func isTemporary(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

// ServeConn serves one connection, closes it, and returns when it is over. When ctx ends, the
// connection ends at once.
func (s *Server) ServeConn(ctx context.Context, c net.Conn) { s.serve(ctx, ctx, c) }

// serve is ServeConn for a connection that may finish its work after soft ends, and is closed at
// once when hard ends.
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
// and output. SSH and Login of the Server may be nil, and its limits on connections do not apply.
//
// ServeSession closes rw and returns when the session is over. It returns nil if the peer has ended
// the session. When ctx ends, so does the session; Close of rw has to interrupt a Read and a Write.
// Files that the peer has open then are abandoned: see [Account].Hidden. The [Conn] of the hooks
// has the addresses of rw if that is a net.Conn, and none otherwise.
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

// serveAccount serves a session of an account.
func (c *userConn) serveAccount(rw io.ReadWriter, a *Account) (err error) {
	defer c.recover(&err)
	c.enter(a)
	defer c.leave()
	defer c.watch()()
	return c.reason(c.serveSession(c.ctx, rw))
}

// enter admits a connection. It may have to wait until others of its source have logged in.
func (s *Server) enter(ctx context.Context, nc net.Conn) (*penalty.Visit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.loginGrace())
	defer cancel()
	return s.shared.guard.Enter(ctx, time.Now, addressOf(nc.RemoteAddr()))
}

// sayTime is how long sending the reason of a rejection may take. The line nearly always fits the
// system's send buffer.
const sayTime = time.Second

// sendReason sends a rejected client the reason, as OpenSSH does. A server may send other lines
// before the line with its version, and clients show them (RFC 4253, section 4.2).
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
		_, _ = io.WriteString(nc, line) // the client may be gone
	}
}

// addressOf returns the address of a peer. It is invalid if the peer has none.
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

// tune sets the options of a TCP connection, which may be wrapped.
func tune(c net.Conn) {
	if t, ok := c.(interface{ SetNoDelay(bool) error }); ok {
		_ = t.SetNoDelay(true) // without it the connection is slower, but works
	}
	sshconn.WidenSend(c)
}
