package users

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"golang.org/x/crypto/ssh"
)

// An Attempt is where and when a peer tries to log in.
type Attempt struct {
	Now  time.Time
	Peer netip.Addr // not valid if unknown, which no from= fits
}

// A Login is what a peer may do who has proven to be a user.
type Login struct {
	User   User       // as it was then; not to be changed
	Access Access     // that of the user, less what the key or certificate takes away
	Dir    string     // where to begin: absolute below the root, slash-separated, often "/"
	Method string     // how: "publickey", "password", "keyboard-interactive", or two with + between
	Peer   netip.Addr // from where

	Key       string // fingerprint of the key, if there was one
	Authority string // fingerprint of who certified it, if it was a certificate
	KeyID     string // of the certificate
	Serial    uint64 // of the certificate

	at       time.Time
	proof    ssh.PublicKey // the key or certificate; nil if there was none
	password bool          // one was right
}

// A Refusal is why a peer may not log in. It is for the log: to the peer it would
// reveal which users there are, and what they have.
type Refusal struct{ Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return "login refused: " + r.Reason }

func refusef(format string, args ...any) error {
	return &Refusal{fmt.Sprintf(format, args...)}
}

// reason returns what a log says of why a login failed.
func reason(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return err.Error()
}

// Password checks a name and password. The error is a [*Refusal], [ErrBusy],
// or why ctx ended before there was time to look.
//
// It takes as long for a user who does not exist, or has no password, as for
// one who does.
func (d *Directory) Password(ctx context.Context, a Attempt, name string, password []byte) (*Login, error) {
	l, err := d.password(ctx, a, name, password)
	if err == nil && l.User.Require != AnyMethod {
		return nil, refusef("a password alone is not enough for this user")
	}
	return l, err
}

// password is Password for any user, whatever else the user needs.
func (d *Directory) password(ctx context.Context, a Attempt, name string, password []byte) (*Login, error) {
	switch {
	case len(password) == 0:
		return nil, refusef("the password is empty")
	case len(password) > MaxPassword:
		return nil, refusef("the password has more than %d bytes", MaxPassword)
	}
	t := d.table.Load()
	u := t.accounts[name]
	h := d.standIn(t, name)
	if u != nil && !u.Password.IsZero() {
		h = u.Password
	}
	ok, err := d.limiter.check(ctx, h, password)
	if err != nil {
		return nil, err
	}
	if err := admits(u, a); err != nil {
		return nil, err
	}
	switch {
	case u.Password.IsZero():
		return nil, refusef("the user has no password")
	case !ok:
		return nil, refusef("wrong password")
	}
	return &Login{User: *u, Access: u.Access, Dir: "/", Method: "password", Peer: plain(a.Peer), at: a.Now, password: true}, nil
}

// admits returns why a user may not log in, whatever the client proves; nil if there is no
// such reason. A nil user does not exist.
func admits(u *User, a Attempt) error {
	switch {
	case u == nil:
		return refusef("there is no such user")
	case u.Disabled:
		return refusef("the user is disabled")
	case len(u.From) > 0 && !inAny(u.From, a.Peer):
		return refusef("the user may not log in from this address")
	}
	return nil
}

// An Outcome is what an attempt came to.
type Outcome uint8

// The outcomes.
const (
	Accepted Outcome = iota // the user is logged in
	Partial                 // the key was right, and the password is still to come
	Refused
	Busy // too many passwords are being checked: see ErrBusy
)

// String returns the outcome in a word.
func (o Outcome) String() string {
	switch o {
	case Accepted:
		return "accepted"
	case Partial:
		return "partial"
	case Refused:
		return "refused"
	case Busy:
		return "busy"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// An Event is one line for an audit log. There is no secret in it, unless a
// user typed one in place of the name.
type Event struct {
	Outcome Outcome
	User    string // as the peer gave it, cut to 64 bytes: anything
	Peer    netip.Addr
	Method  string
	Offered bool // refused a key that the peer merely asked about

	Key, Authority, KeyID string // as in Login
	Serial                uint64

	Reason string // why it was refused
}

// LogValue returns what there is as a group of attributes.
func (e Event) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("outcome", e.Outcome.String()),
		slog.String("user", e.User),
		slog.String("peer", e.Peer.String()),
		slog.String("method", e.Method),
	}
	if e.Offered {
		attrs = append(attrs, slog.Bool("offered", true))
	}
	for _, a := range []struct{ key, value string }{
		{"key", e.Key}, {"authority", e.Authority}, {"key-id", e.KeyID}, {"reason", e.Reason},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.key, a.value))
		}
	}
	if e.Authority != "" {
		attrs = append(attrs, slog.Uint64("serial", e.Serial))
	}
	return slog.GroupValue(attrs...)
}

// describe adds what there is to say of a key.
func (e *Event) describe(k ssh.PublicKey) {
	e.Key = fingerprint(k)
	if c, ok := k.(*ssh.Certificate); ok {
		e.Authority, e.KeyID, e.Serial = fingerprint(c.SignatureKey), shorten(c.KeyId), c.Serial
	}
}
