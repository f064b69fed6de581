package users

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// Options holds the options of [Directory.Configure]. The zero value is usable.
type Options struct {
	Now   func() time.Time // returns the current time; nil means time.Now
	Audit func(Event)      // called for every attempt to log in, in the goroutine of the handshake; may be nil

	// NoPasswords disables passwords, even for users who have one. A user who needs both a key and
	// a password then cannot log in.
	NoPasswords bool
}

// Configure sets all fields of c that concern logging in, and no others. It overwrites previous
// values of these fields, such as NoClientAuth. Call it for each connection, with a copy of the
// configuration: which methods are offered depends on the users at that moment.
//
// If any user has a password, every peer is offered the methods password and keyboard-interactive.
//
// If a peer only offers a key, that key is not accepted yet. When the peer has proven by a
// signature that it owns the key, its rights are looked up again, and only the result of this
// second lookup gets into the permissions: see [LoginOf]. A wrong signature ends the handshake. It
// is not reported to Audit; only the error of ssh.NewServerConn shows it.
func (d *Directory) Configure(c *ssh.ServerConfig, o Options) {
	g := &gate{d: d, o: o}
	if g.o.Now == nil {
		g.o.Now = time.Now
	}
	if g.o.Audit == nil {
		g.o.Audit = func(Event) {}
	}
	c.NoClientAuth, c.NoClientAuthCallback, c.GSSAPIWithMICConfig = false, nil, nil
	c.PublicKeyAuthAlgorithms = slices.Clone(signatures)
	c.PublicKeyCallback = g.offered
	c.VerifiedPublicKeyCallback = g.verified
	c.PasswordCallback, c.KeyboardInteractiveCallback = nil, nil
	if !o.NoPasswords && len(d.table.Load().hashes) > 0 {
		c.PasswordCallback = g.typed(nil, "password")
		c.KeyboardInteractiveCallback = interactive(g.typed(nil, "keyboard-interactive"))
	}
}

// A gate holds the callbacks for x/crypto/ssh. It has no state, so several connections can share
// one.
type gate struct {
	d *Directory
	o Options
}

// attempt returns the current time and the peer's address.
func (g *gate) attempt(conn ssh.ConnMetadata) Attempt {
	return Attempt{Now: g.o.Now(), Peer: peer(conn.RemoteAddr())}
}

// peer returns the IP address in a. The result is not valid if the address is not known.
func peer(a net.Addr) netip.Addr {
	switch a := a.(type) {
	case nil:
		return netip.Addr{}
	case *net.TCPAddr:
		return plain(a.AddrPort().Addr())
	}
	p, _ := netip.ParseAddrPort(a.String())
	return plain(p.Addr())
}

// report calls Audit with the result of an attempt, and returns err unchanged.
func (g *gate) report(e Event, conn ssh.ConnMetadata, err error) error {
	e.User, e.Peer = shorten(conn.User()), peer(conn.RemoteAddr())
	if err != nil {
		e.Outcome, e.Reason = Refused, reason(err)
		if errors.Is(err, ErrBusy) {
			e.Outcome = Busy
		}
	}
	g.o.Audit(e)
	return err
}

// offered is called when a peer offers a key. It returns an error if a signature by the key could
// not lead to a login.
func (g *gate) offered(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	l, p, err := g.d.byKey(g.attempt(conn), conn.User(), key)
	if err == nil {
		err = g.possible(l)
	}
	if err != nil {
		e := Event{Method: "publickey", Offered: true}
		e.describe(key)
		return nil, g.report(e, conn, err)
	}
	// x/crypto/ssh needs these permissions for its own checks. They must not count as a login:
	// LoginOf must only accept the permissions that verified returns.
	delete(p.ExtraData, loginKey{})
	return p, nil
}

// possible returns the reason why a login will fail later, although it is valid so far, or nil.
func (g *gate) possible(l *Login) error {
	if l.User.Require != KeyAndPassword {
		return nil
	}
	switch {
	case g.o.NoPasswords:
		return refusef("the user needs a password too, and passwords are off")
	case l.User.Password.IsZero():
		return refusef("the user needs a password too, and has none")
	}
	return nil
}

// verified is called when a peer has proven that it owns a key.
func (g *gate) verified(conn ssh.ConnMetadata, key ssh.PublicKey, before *ssh.Permissions, algorithm string) (*ssh.Permissions, error) {
	e := Event{Outcome: Accepted, Method: "publickey"}
	e.describe(key)
	if !slices.Contains(signatures, algorithm) { // cannot happen, because Configure restricts the algorithms
		return nil, g.report(e, conn, refusef("signed with %s", shorten(algorithm)))
	}
	l, p, err := g.d.byKey(g.attempt(conn), conn.User(), key)
	if err == nil {
		err = g.possible(l)
	}
	// x/crypto/ssh verified the signature with the permissions from the offer. They may not have
	// required a touch, while the present rights do.
	if err == nil && hasExtension(before, noTouchExtension) && !hasExtension(p, noTouchExtension) {
		err = refusef("the key has to be touched since a moment ago")
	}
	if err != nil {
		return nil, g.report(e, conn, err)
	}
	if l.User.Require == KeyAndPassword {
		e.Outcome = Partial
		_ = g.report(e, conn, nil)
		// x/crypto/ssh discards the permissions after a partial success. So the callbacks of the
		// next step remember the key, and look up its rights again.
		return nil, &ssh.PartialSuccessError{Next: ssh.ServerAuthCallbacks{
			PasswordCallback:            g.typed(key, "publickey+password"),
			KeyboardInteractiveCallback: interactive(g.typed(key, "publickey+keyboard-interactive")),
		}}
	}
	return p, g.report(e, conn, nil)
}

func hasExtension(p *ssh.Permissions, extension string) bool {
	if p == nil {
		return false
	}
	_, ok := p.Extensions[extension]
	return ok
}

// typed returns a callback that checks a password. If key is not nil, the key was verified before,
// and the login gets the rights of the key. `method` names the methods in the Login and in the Event.
func (g *gate) typed(key ssh.PublicKey, method string) func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
	return func(conn ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		l, p, err := g.login(conn, key, password)
		e := Event{Outcome: Accepted, Method: method}
		if key != nil {
			e.describe(key)
		}
		if err != nil {
			return nil, g.report(e, conn, err)
		}
		l.Method, l.password = method, true
		return p, g.report(e, conn, nil)
	}
}

// login returns the login for a password or, if key is not nil, for the key and the password
// together.
func (g *gate) login(conn ssh.ConnMetadata, key ssh.PublicKey, password []byte) (*Login, *ssh.Permissions, error) {
	a := g.attempt(conn)
	// x/crypto/ssh provides no context here. That does no harm: the check cannot wait for long,
	// because at most maxWaiting passwords wait.
	if key == nil {
		l, err := g.d.Password(context.Background(), a, conn.User(), password)
		if err != nil {
			return nil, nil, err
		}
		return l, permissions(l, grant{}), nil
	}
	if _, err := g.d.password(context.Background(), a, conn.User(), password); err != nil {
		return nil, nil, err
	}
	return g.d.byKey(a, conn.User(), key)
}

// interactive returns a callback that asks for the password with the method keyboard-interactive
// (RFC 4256), for clients that do not support the method password. It asks even if the user does not
// exist.
func interactive(check func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error)) func(ssh.ConnMetadata, ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
	return func(conn ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		answers, err := ask("", "", []string{"Password: "}, []bool{false})
		if err != nil {
			return nil, err
		}
		if len(answers) != 1 {
			return nil, refusef("%d answers to one question", len(answers))
		}
		return check(conn, []byte(answers[0]))
	}
}
