package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// A userConn is what the sessions of one connection have in common, whatever carries
// them: the account, and what is open.
type userConn struct {
	server *Server
	ctx    context.Context // ends with the connection, which ends with it
	cancel context.CancelCauseFunc
	info   *Conn

	// Set by enter, and not changed after.
	account  *Account
	tree     store.Tree // what the access leaves of the account's
	home     string     // where relative names begin, as the store has it
	throttle *rate.Pair
	refuses  *requestSet // nil for none
	draft    bool        // the client sends SYMLINK in the draft's order

	handles  atomic.Int64
	commands atomic.Int64 // until their exit status is sent
	refusals atomic.Int64 // what was refused and is reported, but for changes
	active   atomic.Int64 // when a request came or a reply went, in nanoseconds since it began
	ending   atomic.Bool  // to end as soon as nothing is open
}

// begin begins a connection between two addresses, which are nil if it has none.
func (c *userConn) begin(ctx context.Context, s *Server, peer, local net.Addr) {
	c.server = s
	c.info = &Conn{Peer: peer, Local: local, Began: time.Now()}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
}

// ServeSession serves one SFTP session of an account over rw, which needs no SSH: that, or
// whatever else carries the session, is the program's. An sshd that runs the program as its
// subsystem is an example, with the standard input and output for rw. SSH and Login of the
// Server may be missing, and its limits on connections do not count.
//
// ServeSession closes rw, and returns when the session is over. If the peer has ended it,
// that is no error. If ctx ends, the session does: Close of rw has to end a Read and a
// Write that wait. Files that the peer has open then are abandoned: see [Account].Hidden.
// The [Conn] of the hooks has the addresses of rw if that is a net.Conn, and none
// otherwise.
func (s *Server) ServeSession(ctx context.Context, rw io.ReadWriteCloser, a *Account) error {
	defer rw.Close()
	if err := a.check(); err != nil {
		return fmt.Errorf("sftp: serving a session: %w", err)
	}
	s.once.Do(s.init)
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

// serveSession speaks SFTP until the peer has had enough, or breaks its rules.
func (c *userConn) serveSession(ctx context.Context, rw io.ReadWriter) (err error) {
	defer c.recover(&err)
	c.server.counts.sessions.Add(1)
	defer c.server.counts.sessions.Add(-1)
	return newSession(ctx, c, rw).serve()
}

// check returns what is wrong with an account.
func (a *Account) check() error {
	if a == nil || a.Tree == nil {
		return errors.New("the account has no files")
	}
	_, err := requestsNamed(a.Refused)
	return err
}

// reportEnd reports that the connection has ended, and why.
func (c *userConn) reportEnd(err error) {
	c.info.Err, c.info.Duration = err, time.Since(c.info.Began)
	defer c.recover(nil)
	if c.server.Disconnected != nil {
		c.server.Disconnected(c.info)
	}
}

// recover is deferred where a panic must end the connection and nothing else. It
// sets err, if that is not nil.
func (c *userConn) recover(err *error) {
	v := recover()
	if v == nil {
		return
	}
	c.server.counts.panics.Add(1)
	e := &panicError{v, debug.Stack()}
	c.cancel(e)
	if err != nil {
		*err = e
	}
}

// reason returns why the connection was ended here, if it was, and err otherwise:
// all that comes of closing it is no news.
func (c *userConn) reason(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return err
}

// abandoned returns why something ends that the client did not close.
func (c *userConn) abandoned() error {
	if cause := context.Cause(c.ctx); cause != nil && cause != errLeft {
		return fmt.Errorf("%w: %w", ErrEnded, cause)
	}
	return ErrAbandoned
}

// enter begins with an account, which check has nothing against.
func (c *userConn) enter(a *Account) {
	c.account, c.info.Account = a, a
	if a.User != "" {
		c.info.User = a.User
	}
	switch c.tree = a.Tree; a.Access {
	case users.Full:
		if a.CreateOnly {
			c.tree = store.CreateOnly(a.Tree, isTempName)
		}
	case users.UploadOnly:
		c.tree = store.UploadOnly(a.Tree, isTempName)
	default:
		c.tree = store.ReadOnly(store.Finished(a.Tree))
	}
	if c.home = path.Clean("/" + a.Dir)[1:]; c.home == "" {
		c.home = "."
	}
	if len(a.Refused) > 0 {
		refused, _ := requestsNamed(a.Refused) // check has found no mistake
		c.refuses = &refused
	}
	c.throttle = c.server.accounts.Enter(c.info.User, a.Rate)
	c.touch()
}

// isTempName reports whether a name is one that haul's client gives a file until it
// is whole. It is chosen at random, so a client that names the file has made it, on
// whichever of their connections. The name of a record is none: it follows from the
// name of the file that is uploaded.
func isTempName(name string) bool {
	return tempname.Is(path.Base(name), tempname.Upload)
}

// leave ends with it.
func (c *userConn) leave() {
	if c.account == nil {
		return
	}
	c.server.accounts.Leave(c.info.User)
	if c.account.Close != nil {
		c.account.Close()
	}
}

// finish lets the connection come to an end: at once if nothing is open, or as
// soon as nothing is.
func (c *userConn) finish() {
	c.ending.Store(true)
	c.endIfIdle()
}

// endIfIdle ends a connection that is to end and has nothing open, and reports whether
// it does.
func (c *userConn) endIfIdle() bool {
	if !c.ending.Load() || c.handles.Load() > 0 || c.commands.Load() > 0 {
		return false
	}
	c.cancel(errEnding)
	return true
}

// touch notes that the connection is in use.
func (c *userConn) touch() { c.active.Store(int64(time.Since(c.info.Began))) }

// watch reports the login, and ends the connection when it has not been in use for long or
// the account's Life ends. It returns what stops it.
func (c *userConn) watch() (stop func()) {
	stopIdle := c.watchIdle()
	stopLife := func() bool { return true }
	if life := c.account.Life; life != nil {
		stopLife = context.AfterFunc(life, func() { c.cancel(context.Cause(life)) })
	}
	if c.server.Connected != nil {
		c.server.Connected(c.info)
	}
	return func() { stopIdle(); stopLife() }
}

// watchIdle ends the connection when it has not been in use for long. It
// returns what stops it.
func (c *userConn) watchIdle() (stop func()) {
	limit := c.server.idleTimeout()
	if limit == 0 {
		return func() {}
	}
	var mu sync.Mutex
	var timer *time.Timer
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(limit, func() {
		left := limit - (time.Since(c.info.Began) - time.Duration(c.active.Load()))
		if left <= 0 {
			c.cancel(errIdle)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		timer.Reset(left)
	})
	return func() { timer.Stop() }
}
