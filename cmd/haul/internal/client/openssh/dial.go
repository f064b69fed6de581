package openssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// How long the network may take. The time of questions to the user does not count.
const (
	connectTime  = 30 * time.Second // until the host key is checked, unless ConnectTimeout is set
	authTime     = 2 * time.Minute  // to log in; sshd gives as long
	attemptPause = time.Second      // between ConnectionAttempts
)

// A Dialer makes authenticated connections. The zero Dialer asks no questions. Its
// methods may run at once. It remembers opened keys and the password that a
// login took, in memory, so another connection to the same host by the same way
// asks nothing.
type Dialer struct {
	Prompter Prompter // nil is Batch

	// Notify gets what the user should see, and what servers have to say,
	// safe to print. It must not keep the connection waiting. nil discards it.
	Notify func(text string)

	// Wrap, if set, is put around every connection that SSH is to run over.
	// Close of what it returns closes what it got. That is a *net.TCPConn
	// unless a jump host or a ProxyCommand is in between.
	Wrap func(net.Conn) net.Conn

	Stderr io.Writer // of ProxyCommands; nil is os.Stderr

	mu      sync.Mutex
	asking  chan struct{} // mu: one place, whose holder may ask
	keys    sync.Map      // ssh.Signers that were opened with a passphrase, by file
	secrets sync.Map      // passwords, by Destination.way
}

// Dial connects and logs in to a destination. The context bounds that, and has
// no part in what follows. Errors wrap an [ErrConfig], [ErrHostKey],
// [ErrAuth] or [ErrRefused], or are of the network or the context.
func (d *Dialer) Dial(ctx context.Context, dest Destination) (*Client, error) {
	return d.dial(ctx, &dest, 0)
}

func (d *Dialer) dial(ctx context.Context, dest *Destination, depth int) (*Client, error) {
	switch {
	case dest.Host == "":
		return nil, configErrorf("the destination has no host")
	case depth > maxJumps:
		return nil, configErrorf("more than %d jump hosts", maxJumps)
	}
	limit := dest.ConnectTimeout
	if limit <= 0 {
		limit = connectTime
	}
	began := time.Now()
	l, err := d.link(ctx, dest, limit, depth)
	if err != nil {
		return nil, err
	}
	if dest.Jump == nil {
		// As for ssh the limit is one for all that comes before the login.
		// With a jump host before it, that one had a limit of its own.
		limit = max(limit-time.Since(began), time.Millisecond)
	}
	c, err := d.handshake(ctx, dest, l, limit)
	if err != nil {
		l.close()
		return nil, err
	}
	return c, nil
}

// A link is what an SSH connection runs over.
type link struct {
	conn  net.Conn
	cut   func() // ends it at once, so that all waiting on it ends
	jump  *Client
	proxy *proxyConn
	trip  time.Duration // how long it took to connect: a round trip; 0 if it is not known
}

// close ends a link and all it needs.
func (l *link) close() {
	_ = l.conn.Close()
	if l.jump != nil {
		_ = l.jump.Close()
	}
}

// link connects to a host: directly, by a command, or from a jump host.
func (d *Dialer) link(ctx context.Context, dest *Destination, limit time.Duration, depth int) (*link, error) {
	l, err := d.rawLink(ctx, dest, limit, depth)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("connect to %s: %w", dest.name(), err)
	}
	if d.Wrap != nil {
		l.conn = d.Wrap(l.conn)
	}
	return l, nil
}

func (d *Dialer) rawLink(ctx context.Context, dest *Destination, limit time.Duration, depth int) (*link, error) {
	switch {
	case dest.Jump != nil:
		jump, err := d.dial(ctx, dest.Jump, depth+1)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		conn, err := through(ctx, jump, dest.address(), limit)
		if err != nil {
			_ = jump.Close()
			return nil, fmt.Errorf("from %s: %w", dest.Jump.name(), err)
		}
		return &link{conn: conn, cut: jump.link.cut, jump: jump, trip: time.Since(began)}, nil
	case dest.ProxyCommand != "":
		p, err := d.startProxy(dest.ProxyCommand)
		if err != nil {
			return nil, fmt.Errorf("ProxyCommand: %w", err)
		}
		return &link{conn: p, cut: p.Cut, proxy: p}, nil
	}
	conn, trip, err := dialTCP(ctx, dest, limit)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn, cut: func() { _ = conn.Close() }, trip: trip}, nil
}

// through has a jump host connect to an address.
func through(ctx context.Context, jump *Client, address string, limit time.Duration) (net.Conn, error) {
	// The request cannot be taken back, so if it takes too long the jump host
	// has to go.
	stop := context.AfterFunc(ctx, jump.link.cut)
	defer stop()
	waiting := newPatience(limit, jump.link.cut)
	conn, err := jump.Client.Dial("tcp", address)
	if waiting.stop() {
		if err == nil {
			_ = conn.Close()
		}
		return nil, overdue(limit)
	}
	if err != nil {
		return nil, printableError{err}
	}
	return conn, nil
}

// address is what to connect to.
func (d *Destination) address() string {
	port := d.Port
	if port == 0 {
		port = defaultPort
	}
	return net.JoinHostPort(d.Host, strconv.Itoa(port))
}

func overdue(limit time.Duration) error {
	return fmt.Errorf("not done within %v: %w", limit.Round(time.Millisecond), os.ErrDeadlineExceeded)
}

// handshake makes a Client of a link: versions, keys, host key, login.
func (d *Dialer) handshake(ctx context.Context, dest *Destination, l *link, limit time.Duration) (*Client, error) {
	conn := &watched{Conn: l.conn}
	waiting := newPatience(limit, l.cut)
	stop := context.AfterFunc(ctx, l.cut)

	host, err := newHostCheck(ctx, d, dest, waiting)
	if err != nil {
		waiting.stop()
		stop()
		return nil, err
	}
	auth := &authenticator{d: d, ctx: ctx, dest: dest, waiting: waiting, host: host, lost: conn.lost}
	defer auth.close()
	config := &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges:   or(dest.KexAlgorithms, defaultKeyExchanges),
			Ciphers:        or(dest.Ciphers, defaultCiphers),
			MACs:           or(dest.MACs, defaultMACs),
			RekeyThreshold: dest.RekeyLimit,
		},
		User:              dest.User,
		HostKeyCallback:   host.check,
		HostKeyAlgorithms: host.algorithms(),
		AuthCallback:      auth.next,
		BannerCallback:    auth.banner,
	}
	sshConn, channels, requests, err := ssh.NewClientConn(conn, dest.address(), config)
	// Either may have cut the connection just when it was ready.
	fired, ended := waiting.stop(), !stop()
	if err == nil && !fired && !ended {
		auth.done()
		return newClient(dest, l, conn, ssh.NewClient(sshConn, channels, requests)), nil
	}
	if err == nil {
		_ = sshConn.Close()
		ssh.NewClient(sshConn, channels, requests) // for what it would leave waiting
	}
	if words := conn.said.words(); words != "" && ctx.Err() == nil && !fired && l.proxy == nil {
		if !refuses(words) {
			return nil, fmt.Errorf("connect to %s: no SSH server: it says %q: %w", dest.name(), words, printableError{err})
		}
		return nil, &RefusedError{Host: dest.name(), Words: words, Err: printableError{err}}
	}
	return nil, d.explain(ctx, dest, l, host, auth, fired, err)
}

// explain says why a handshake failed.
func (d *Dialer) explain(ctx context.Context, dest *Destination, l *link, host *hostCheck, auth *authenticator, fired bool, err error) error {
	doing := "connect to " + dest.name()
	if host.accepted != nil {
		doing = "log in as " + dest.login()
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	case host.err != nil:
		return host.err
	case errors.Is(auth.err, ErrAuth):
		return auth.err
	case fired && host.accepted != nil:
		return fmt.Errorf("%s: %w", doing, overdue(authTime))
	case fired:
		return fmt.Errorf("%s: the server answers too slowly: %w", doing, os.ErrDeadlineExceeded)
	}
	err = printableError{err}
	if status := l.proxy.status(); status != "" {
		return fmt.Errorf("%s: %s: %w", doing, status, err)
	}
	if isBroken(err) {
		return fmt.Errorf("%s: the connection broke: %w", doing, err)
	}
	if _, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		return &ConfigError{Err: fmt.Errorf("%s: %w", doing, err)}
	}
	if host.accepted != nil {
		return auth.fail(err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isBroken reports whether an error is one of the connection, and not of what
// was said over it.
func isBroken(err error) bool {
	_, network := errors.AsType[net.Error](err)
	ends := []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, os.ErrClosed, syscall.EPIPE}
	return network || slices.ContainsFunc(ends, func(e error) bool { return errors.Is(err, e) })
}

// notify shows a text.
func (d *Dialer) notify(text string) {
	if d.Notify != nil {
		d.Notify(text)
	}
}

// turn returns what must be held to ask.
func (d *Dialer) turn() chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asking == nil {
		d.asking = make(chan struct{}, 1)
	}
	return d.asking
}

// opened returns the key of a file that was opened with a passphrase, or nil.
func (d *Dialer) opened(file string) ssh.Signer {
	key, _ := d.keys.Load(file)
	signer, _ := key.(ssh.Signer)
	return signer
}

// secret returns the password that the last login took by the same way, or "".
func (d *Dialer) secret(way string) string {
	password, _ := d.secrets.Load(way)
	text, _ := password.(string)
	return text
}
