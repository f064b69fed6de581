package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/internal/sshconn"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/users"
)

// Why connections end, besides what the network and the peer say.
var (
	errLoginGrace = errors.New("the login took too long")
	errIdle       = errors.New("idle for too long")
	errBroken     = errors.New("the client broke the protocol, and sent more")
)

// errLeft is why the context of a connection ends whose client was gone before.
var errLeft = errors.New("the client left")

// maxWait is how long x/crypto may take to end a connection. It is some
// milliseconds, or what Close of the connection lingers.
const maxWait = sshconn.Linger + 4*time.Second

// A serverConn is one connection of a server, over SSH.
type serverConn struct {
	userConn
	nc    *sshconn.Conn // to close it lets what was written go out first
	visit *penalty.Visit

	entered chan struct{} // closed when the login has set the account

	locked  error  // handshake only: a password was not checked, as too many were wrong before
	guessed func() // handshake only: ends the turn of the password that is being checked; nil if there is none

	quota receiveQuota // of what comes

	channels atomic.Int64 // of this connection, as long as either side may use them

	work sync.WaitGroup // all goroutines of the connection but the one that serves it
}

func newServerConn(s *Server, ctx context.Context, nc net.Conn, visit *penalty.Visit) *serverConn {
	c := &serverConn{nc: sshconn.New(nc), visit: visit, entered: make(chan struct{})}
	c.begin(ctx, s, nc.RemoteAddr(), nc.LocalAddr())
	c.quota.stop, c.quota.run, c.quota.windows = c.cancel, c.work.Go, &s.windows
	return c
}

// serve serves the connection until it is over, or comes to an end when soft
// does.
func (c *serverConn) serve(soft context.Context) {
	stop := context.AfterFunc(c.ctx, func() { _ = c.nc.Close() })
	defer stop()
	err := c.run(soft)
	if c.account == nil {
		c.server.counts.failures.Add(1)
		c.punish(err)
	}
	c.reportEnd(err)
}

// punish notes what a connection without a login did wrong. One that merely ended is
// noted by its visit: clients end connections when they know no host key, have no
// key that fits, or speak no algorithm of ours, and port scanners do.
func (c *serverConn) punish(err error) {
	_, isPanic := errors.AsType[*panicError](err)
	switch {
	case isPanic, errors.Is(err, errTalkative):
		c.fail(penalty.Malformed)
	case errors.Is(err, errLoginGrace):
		c.fail(penalty.TooSlow)
	}
}

// fail notes an offence, and reports if the peer is refused from now on.
func (c *serverConn) fail(o penalty.Offence) {
	c.server.lockedOut(c.info.Peer, c.visit.Fail(time.Now(), o))
}

// run logs in and serves.
func (c *serverConn) run(soft context.Context) (err error) {
	defer c.recover(&err)
	// Without a login there is nothing to bring to an end.
	loggedIn := context.AfterFunc(soft, func() { c.cancel(errEnding) })
	defer loggedIn()
	sc, channels, requests, err := c.handshake()
	if err != nil {
		return c.reason(err)
	}
	// Unknown requests that want no answer are passed over (RFC 4254, section 4).
	c.quota.poke = func() { _, _, _ = sc.SendRequest("keepalive@openssh.com", false, nil) }
	// All that comes must be taken off, or the connection can't even be closed.
	c.work.Go(func() { c.refuseAll(requests) })
	defer func() {
		c.cancel(errLeft) // if it has not ended yet
		_ = c.nc.Close()
		for range channels {
		}
		c.work.Wait()
		c.leave()
	}()
	if err := c.login(sc); err != nil {
		c.refuseSessions(channels)
		return c.reason(err)
	}
	loggedIn()
	stop := context.AfterFunc(soft, c.finish)
	defer stop()
	defer c.watch()()
	for nc := range channels {
		c.accept(nc)
	}
	if err = c.wait(sc); isFarewell(err) {
		err = nil
	}
	return c.reason(err)
}

const (
	// refuseTime is how long a client has to open a session, be refused and leave,
	// after a login that failed on this side.
	refuseTime = 5 * time.Second

	// loginFailed is the reason that it gets. The true one may be about files that are
	// not its business.
	loginFailed = "the login was right, but the server cannot open the account's files; its log has the reason"
)

// refuseSessions refuses what a client opens, with a reason, until it leaves: SSH has no
// other way to reject a user who has logged in.
func (c *serverConn) refuseSessions(channels <-chan ssh.NewChannel) {
	timer := time.NewTimer(refuseTime)
	defer timer.Stop()
	for {
		select {
		case nc, ok := <-channels:
			if !ok {
				return
			}
			_ = nc.Reject(ssh.ConnectionFailed, loginFailed) // or the connection is gone
		case <-timer.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// wait returns why x/crypto has ended the connection, which takes no more
// channels.
//
// It ends on whatever breaks the protocol, but if more than 16 packets come
// behind that, its reader holds one that is never taken, and its Wait waits for the
// reader: so the server does not wait for it. The goroutine left behind holds the packets
// as long as the process lives, and the address that sent them is blocked.
func (c *serverConn) wait(sc *ssh.ServerConn) error {
	over := make(chan error, 1)
	go func() { over <- sc.Wait() }()
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case err := <-over:
		return err
	case <-timer.C:
	}
	c.server.counts.stuck.Add(1)
	c.fail(penalty.Malformed)
	return errBroken
}

// isFarewell reports whether a connection ended because the client meant it to.
// x/crypto keeps the type of a disconnect message to itself; reason 11 is "by
// application" (RFC 4253, section 11.1), which is how OpenSSH's client leaves.
func isFarewell(err error) bool {
	return err == io.EOF || err != nil && strings.HasPrefix(err.Error(), "ssh: disconnect, reason 11:")
}

// refuseAll refuses requests that the server does not know. Clients take that as a sign
// of life.
func (c *serverConn) refuseAll(requests <-chan *ssh.Request) {
	defer func() {
		for r := range requests { // all that comes must be taken off, whatever a hook does
			_ = r.Reply(false, nil)
		}
	}()
	defer c.recover(nil)
	for r := range requests {
		_ = r.Reply(false, nil) // or the connection is gone
		if r.Type == "tcpip-forward" || r.Type == "streamlocal-forward@openssh.com" {
			select {
			case <-c.entered: // whose request it is is known from then on
				c.refused(r.Type, addressIn(r.Payload))
			case <-c.ctx.Done():
			}
		}
	}
}

// handshake lets a client log in, in the grace time at most.
func (c *serverConn) handshake() (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	timer := time.AfterFunc(c.server.loginGrace(), func() { c.cancel(errLoginGrace) })
	defer timer.Stop()
	config, err := c.server.SSH(c.ctx, c.nc.NetConn())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", errOurs, err)
	}
	config = prepared(config)
	c.guardPasswords(config)
	defer c.endGuess()
	log := config.AuthLogCallback
	config.AuthLogCallback = func(m ssh.ConnMetadata, method string, err error) {
		c.tried(m, method, err)
		if log != nil {
			log(m, method, err)
		}
	}
	banner := config.BannerCallback
	config.BannerCallback = func(m ssh.ConnMetadata) string { // before the first attempt to log in
		if err := checkHostKey(m); err != nil {
			c.cancel(err)
			return ""
		}
		text := c.lockoutBanner()
		if banner != nil {
			text += banner(m)
		}
		return text
	}
	sc, channels, requests, err := ssh.NewServerConn(countedConn{c.nc, &c.quota}, config)
	if err != nil {
		if _, isAuth := errors.AsType[*ssh.ServerAuthError](err); isAuth && c.locked != nil {
			err = c.locked
		}
		return nil, nil, nil, err
	}
	c.quota.known.Store(true)
	return sc, channels, requests, nil
}

// tried notes an attempt to log in. A wrong password is held against the peer at
// once. Keys that do not fit are not: clients offer all they have, and no one can
// guess one.
func (c *serverConn) tried(m ssh.ConnMetadata, method string, err error) {
	defer c.endGuess() // the password counts, before the next is checked
	c.info.User, c.info.Client = m.User(), string(m.ClientVersion())
	_, partial := errors.AsType[*ssh.PartialSuccessError](err)
	switch {
	case err == nil, partial, errors.Is(err, errUnchecked), errors.Is(err, users.ErrBusy):
	case method == "password", method == "keyboard-interactive":
		c.fail(penalty.BadLogin)
	}
}

// login gives a user the account.
func (c *serverConn) login(sc *ssh.ServerConn) error {
	c.info.User, c.info.Client = sc.User(), string(sc.ClientVersion())
	c.draft = wire.ClientSwapsLinks(c.info.Client, string(sc.ServerVersion()))
	// The timer of the handshake has stopped, if it did not go off just now.
	ctx, done := context.WithTimeoutCause(c.ctx, c.server.loginGrace(), errLoginGrace)
	defer done()
	account, err := c.server.Login(ctx, sc)
	if err == nil {
		err = account.check()
	}
	if err == nil {
		err = context.Cause(ctx)
		if err != nil && account.Close != nil {
			account.Close()
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errOurs, err)
	}
	c.visit.Succeed()
	c.server.counts.logins.Add(1)
	c.enter(account)
	close(c.entered)
	return nil
}
