package sftp

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"path"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// A userConn is the state that the sessions of one connection share: the account, and counters of
// open files. With SSH, it is a part of a serverConn.
type userConn struct {
	server *Server
	ctx    context.Context // ends with the connection; cancelling it closes the connection
	cancel context.CancelCauseFunc
	info   *Conn // describes the connection to the hooks

	// Set by enter, and not changed afterwards.
	account   *Account
	tree      store.Tree // the account's tree, restricted to its access
	paths     paths
	throttles throttles
	hashes    *hashUser
	refuses   *requestSet // the requests that Account.Refused lists; nil if it is empty
	draft     bool        // the client sends the two paths of SYMLINK in the order of the draft

	handles  atomic.Int64 // number of open handles, and of those about to be opened
	unclosed atomic.Bool  // a session ended with handles that the client had not closed
	commands atomic.Int64 // hash commands whose exit status is not sent yet
	refusals atomic.Int64 // number of refusals so far; only the first maxRefusals are reported
	active   atomic.Int64 // time of the last request or reply, in nanoseconds since Began
	ending   atomic.Bool  // finish was called: close the connection as soon as nothing is open on it
}

// begin initializes c for a connection between two addresses, which may be nil.
func (c *userConn) begin(ctx context.Context, s *Server, peer, local net.Addr) {
	c.server = s
	c.info = &Conn{Peer: peer, Local: local, Began: time.Now()}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
}

// reportEnd calls the Disconnected hook with the error of the connection.
func (c *userConn) reportEnd(err error) {
	c.info.Err, c.info.Duration = err, time.Since(c.info.Began)
	defer c.recover(nil)
	if c.server.Disconnected != nil {
		c.server.Disconnected(c.info)
	}
}

// recover is deferred where a panic must close this connection, but not stop the program. It sets
// *err to a *panicError, unless the pointer is nil.
func (c *userConn) recover(err *error) {
	v := recover()
	if v == nil {
		return
	}
	c.server.shared.counts.panics.Add(1)
	e := &panicError{v, debug.Stack()}
	c.cancel(e)
	if err != nil {
		*err = e
	}
}

// reason returns why the server has closed the connection, or err if the server has not closed it.
// Closing causes further errors, which are not of interest.
func (c *userConn) reason(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return err
}

// abandoned returns the error of a file that the client did not close.
func (c *userConn) abandoned() error {
	if cause := context.Cause(c.ctx); cause != nil && cause != errLeft {
		return fmt.Errorf("%w: %w", ErrEnded, cause)
	}
	return ErrAbandoned
}

// enter sets the account of the connection. Account.check has accepted the account before.
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
	c.paths = paths{account: a, user: c.info.User, home: path.Clean("/" + a.Dir)[1:]}
	if c.paths.home == "" {
		c.paths.home = "."
	}
	if len(a.Refused) > 0 {
		refused, _ := requestsNamed(a.Refused) // cannot fail: Account.check has accepted the names
		c.refuses = &refused
	}
	c.throttles = throttles{&c.server.shared.rate, c.server.shared.accounts.Enter(c.info.User, a.Rate)}
	c.hashes = c.server.shared.hashing.enter(c.info.User)
	c.touch()
}

// isTempName reports whether a name is one of the temporary names that haul's client uses for
// uploads. Such a name is random, so a client that knows the name has made the file, on this
// connection or another. The name of an upload record does not count, because it can be derived
// from the name of the uploaded file.
func isTempName(name string) bool {
	return tempname.Is(path.Base(name), tempname.Upload)
}

// leave gives up the account that enter has set, and calls Account.Close. It does nothing if no
// account was set.
func (c *userConn) leave() {
	if c.account == nil {
		return
	}
	c.server.shared.accounts.Leave(c.info.User)
	c.server.shared.hashing.leave(c.info.User)
	if c.account.Close != nil {
		c.account.Close()
	}
}

// finish closes the connection as soon as nothing is open on it, which may be at once.
func (c *userConn) finish() {
	c.ending.Store(true)
	c.endIfIdle()
}

// endIfIdle closes a connection on which finish was called, if nothing is open on it. It reports
// whether it did so.
func (c *userConn) endIfIdle() bool {
	if !c.ending.Load() || c.handles.Load() > 0 || c.commands.Load() > 0 {
		return false
	}
	c.cancel(errEnding)
	return true
}

// touch records that the connection is in use.
func (c *userConn) touch() { c.active.Store(int64(time.Since(c.info.Began))) }

// watch calls the Connected hook. From then on the connection is closed when it is idle for too
// long or when the account's Life ends, until the returned function is called.
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

// watchIdle closes the connection when it is idle for too long, until the returned function is
// called.
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

// reserve counts a handle that is about to be opened. It fails if the connection has too many
// handles.
func (c *userConn) reserve() error {
	if n := c.handles.Add(1); n > int64(c.server.maxHandles()) {
		c.handles.Add(-1)
		return storewire.ErrBusy
	}
	c.server.shared.counts.handles.Add(1)
	return nil
}

func (c *userConn) unreserve() {
	c.handles.Add(-1)
	c.server.shared.counts.handles.Add(-1)
}

// perm returns the permission bits for a new file or directory: the bits that the client requested,
// or the usual ones, without the bits of the umask.
func (c *userConn) perm(a wire.Attrs, usual fs.FileMode) fs.FileMode {
	if a.Has(wire.AttrMode) {
		usual = fs.FileMode(a.Mode.FileMode()).Perm()
	}
	return usual &^ c.server.umask()
}
