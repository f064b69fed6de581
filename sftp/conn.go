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
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/internal/sshconn"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/users"
)

// maxWait is how long the server waits for x/crypto to close a connection. Usually that takes
// milliseconds, or [sshconn.Linger] if unsent data remains.
const maxWait = sshconn.Linger + 4*time.Second

// A serverConn is one SSH connection of a server.
type serverConn struct {
	userConn
	nc    *sshconn.Conn // its Close first sends the data that is already written
	visit *penalty.Visit

	entered chan struct{} // closed once the login has set the account

	passwords passwordGuard // used only during the handshake

	quota receiveQuota // limits how much received data may wait to be read

	channels atomic.Int64 // number of channels that the peer has not closed yet

	work sync.WaitGroup // waits for all goroutines of the connection except the one that runs serve
}

func newServerConn(s *Server, ctx context.Context, nc net.Conn, visit *penalty.Visit) *serverConn {
	c := &serverConn{nc: sshconn.New(nc), visit: visit, entered: make(chan struct{})}
	c.begin(ctx, s, nc.RemoteAddr(), nc.LocalAddr())
	c.passwords = passwordGuard{ctx: c.ctx, visit: visit}
	c.quota.stop, c.quota.run, c.quota.windows = c.cancel, c.work.Go, &s.shared.windows
	c.quota.source = shares.SourceOf("", addressOf(nc.RemoteAddr()))
	return c
}

// serve serves the connection until it is closed. After the context `soft` ends, the connection may
// only finish its work: it is closed once no file is open.
func (c *serverConn) serve(soft context.Context) {
	stop := context.AfterFunc(c.ctx, func() { _ = c.nc.Close() })
	defer stop()
	err := c.run(soft)
	// A client that has closed its files may leave before it reads the last answers. The system then
	// resets the connection.
	if errors.Is(err, syscall.ECONNRESET) && c.account != nil && !c.unclosed.Load() {
		err = nil
	}
	if c.account == nil {
		c.server.shared.counts.failures.Add(1)
		c.punish(err)
	}
	c.reportEnd(err)
}

// punish records an offence if the connection failed before the login in a way that only a bad
// client causes. All other connections without a login count as a lesser offence, which
// [penalty.Visit.End] records: port scanners merely disconnect, and so do clients that do not know
// the host key, have no suitable key or share no algorithm with us.
func (c *serverConn) punish(err error) {
	_, isPanic := errors.AsType[*panicError](err)
	switch {
	case isPanic, errors.Is(err, errTalkative):
		c.fail(penalty.Malformed)
	case errors.Is(err, errLoginGrace):
		c.fail(penalty.TooSlow)
	}
}

// fail records an offence of the peer. If the server refuses the peer from now on, fail calls the
// LockedOut hook.
func (c *serverConn) fail(o penalty.Offence) {
	c.server.lockedOut(c.info.Peer, c.visit.Fail(time.Now(), o))
}

// run performs the handshake and the login, and serves channels until the connection is closed.
func (c *serverConn) run(soft context.Context) (err error) {
	defer c.recover(&err)
	// Before the login the connection has no work to finish, so it is closed at once when the
	// context `soft` ends.
	loggedIn := context.AfterFunc(soft, func() { c.cancel(errEnding) })
	defer loggedIn()
	sc, channels, requests, err := c.handshake()
	if err != nil {
		return c.reason(err)
	}
	// This message is safe: peers ignore unknown requests that want no reply (RFC 4254, section 4).
	c.quota.poke = func() { _, _, _ = sc.SendRequest("keepalive@openssh.com", false, nil) }
	// x/crypto blocks unless all requests and channels are received. A blocked connection cannot
	// even be closed.
	c.work.Go(func() { c.refuseAll(requests) })
	defer func() {
		c.cancel(errLeft) // has no effect if the context has ended before
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
	// refuseTime is how long a client has to open a channel, receive the refusal and leave, after a
	// login whose account could not be opened.
	refuseTime = 5 * time.Second

	// loginFailed is the reason that the client receives if its account could not be opened. The
	// true reason is only logged, because it may name files that the client should not know of.
	loginFailed = "the login was right, but the server cannot open the account's files; its log has the reason"
)

// refuseSessions rejects all channels that a client opens, with the message loginFailed, until the
// client leaves. SSH has no other way to reject a user who has already logged in.
func (c *serverConn) refuseSessions(channels <-chan ssh.NewChannel) {
	timer := time.NewTimer(refuseTime)
	defer timer.Stop()
	for {
		select {
		case nc, ok := <-channels:
			if !ok {
				return
			}
			_ = nc.Reject(ssh.ConnectionFailed, loginFailed) // an error means only that the connection is gone
		case <-timer.C:
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// wait is called after the last channel was accepted. It returns the error with which x/crypto
// closed the connection.
//
// x/crypto closes a connection that breaks the protocol. If more than 16 packets follow, its reader
// goroutine blocks on a packet that nobody receives, and its Wait waits for that goroutine. So the
// server waits at most maxWait. The goroutine is then left behind, and holds the packets until the
// process exits. The address that sent them is refused from then on.
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
	c.server.shared.counts.stuck.Add(1)
	c.fail(penalty.Malformed)
	return errBroken
}

// isFarewell reports whether the client closed the connection on purpose. The message must be
// matched as text, because x/crypto does not export the type of a disconnect message. OpenSSH's
// client disconnects with reason 11, "by application" (RFC 4253, section 11.1).
func isFarewell(err error) bool {
	return err == io.EOF || err != nil && strings.HasPrefix(err.Error(), "ssh: disconnect, reason 11:")
}

// refuseAll refuses the global requests of a connection. Clients send such requests to check
// whether the server is alive; a refusal is enough to show that.
func (c *serverConn) refuseAll(requests <-chan *ssh.Request) {
	defer func() {
		// x/crypto blocks unless all requests are received, so receive them even if a hook has
		// panicked.
		for r := range requests {
			_ = r.Reply(false, nil)
		}
	}()
	defer c.recover(nil)
	for r := range requests {
		_ = r.Reply(false, nil) // an error means only that the connection is gone
		if r.Type == "tcpip-forward" || r.Type == "streamlocal-forward@openssh.com" {
			select {
			case <-c.entered: // once the login is over, the report can name the user
				c.refused(r.Type, addressIn(r.Payload))
			case <-c.ctx.Done():
			}
		}
	}
}

// handshake lets a client log in, within the login grace time.
func (c *serverConn) handshake() (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, error) {
	timer := time.AfterFunc(c.server.loginGrace(), func() { c.cancel(errLoginGrace) })
	defer timer.Stop()
	config, err := c.server.SSH(c.ctx, c.nc.NetConn())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %w", errOurs, err)
	}
	config = prepared(config)
	c.passwords.guard(config)
	defer c.passwords.endGuess()
	log := config.AuthLogCallback
	config.AuthLogCallback = func(m ssh.ConnMetadata, method string, err error) {
		c.tried(m, method, err)
		if log != nil {
			log(m, method, err)
		}
	}
	banner := config.BannerCallback
	// x/crypto calls BannerCallback before the first attempt to log in.
	config.BannerCallback = func(m ssh.ConnMetadata) string {
		if err := checkHostKey(m); err != nil {
			c.cancel(err)
			return ""
		}
		text := c.passwords.lockoutBanner()
		if banner != nil {
			text += banner(m)
		}
		return text
	}
	sc, channels, requests, err := ssh.NewServerConn(countedConn{c.nc, &c.quota}, config)
	if err != nil {
		if _, isAuth := errors.AsType[*ssh.ServerAuthError](err); isAuth && c.passwords.locked != nil {
			err = c.passwords.locked
		}
		return nil, nil, nil, err
	}
	c.quota.known.Store(true)
	return sc, channels, requests, nil
}

// tried records an attempt to log in. A wrong password counts against the peer at once. An unknown
// key does not: clients offer every key that they have, and nobody can guess a key.
func (c *serverConn) tried(m ssh.ConnMetadata, method string, err error) {
	defer c.passwords.endGuess() // runs after c.fail: this result must count before the next password is checked
	c.info.User, c.info.Client = m.User(), string(m.ClientVersion())
	_, partial := errors.AsType[*ssh.PartialSuccessError](err)
	switch {
	case err == nil, partial, errors.Is(err, errUnchecked), errors.Is(err, users.ErrBusy):
	case method == "password", method == "keyboard-interactive":
		c.fail(penalty.BadLogin)
	}
}

// login asks the Login hook for the account of a user whose credentials were accepted, and sets it.
func (c *serverConn) login(sc *ssh.ServerConn) error {
	c.info.User, c.info.Client = sc.User(), string(sc.ClientVersion())
	c.draft = wire.ClientSwapsLinks(c.info.Client, string(sc.ServerVersion()))
	// The login needs a time limit of its own, because the handshake's timer has been stopped. If
	// that timer fired just before, c.ctx has ended already.
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
	c.server.shared.counts.logins.Add(1)
	c.enter(account)
	close(c.entered)
	return nil
}
