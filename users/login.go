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

// An Attempt holds the time of an attempt to log in, and the peer's address.
type Attempt struct {
	Now  time.Time
	Peer netip.Addr // not valid if unknown; a login that is restricted to some addresses is then refused
}

// A Login describes a login that was accepted: the user, and what the peer may do.
type Login struct {
	User   User       // the user at the time of the login; must not be changed
	Access Access     // the user's access, restricted by the options of the key or certificate
	Dir    string     // initial directory: slash-separated and absolute, where "/" is the root of the user
	Method string     // "publickey", "password", "keyboard-interactive", or two of these joined by +
	Peer   netip.Addr // the address from which the peer logged in

	Key       string // fingerprint of the key; "" if no key was used
	Authority string // fingerprint of the authority; "" if no certificate was used
	KeyID     string // key ID in the certificate; "" without a certificate
	Serial    uint64 // serial number of the certificate; 0 without a certificate

	at       time.Time     // time of the login, for Recheck
	proof    ssh.PublicKey // key or certificate that was used; nil if none was used
	password bool          // a password was used, alone or after a key
}

// A Refusal is the error of a login that was refused. Its reason is for the log only: to the peer,
// it would reveal which users exist and how they may log in.
type Refusal struct{ Reason string }

// Error returns the reason.
func (r *Refusal) Error() string { return "login refused: " + r.Reason }

func refusef(format string, args ...any) error {
	return &Refusal{fmt.Sprintf(format, args...)}
}

// reason returns the text of an error for the log.
func reason(err error) string {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Reason
	}
	return err.Error()
}

// Password checks a name and a password. If the login is not accepted, the error is a [*Refusal] or
// [ErrBusy]. If ctx ends before the check, the error is the cause of its end.
//
// The check takes as long for a user who does not exist or has no password as for a user with a
// password.
func (d *Directory) Password(ctx context.Context, a Attempt, name string, password []byte) (*Login, error) {
	l, err := d.password(ctx, a, name, password)
	if err == nil && l.User.Require != AnyMethod {
		return nil, refusef("a password alone is not enough for this user")
	}
	return l, err
}

// password is like Password, but also accepts users who need a key in addition to the password.
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

// admits returns an error if the user u may not log in at all, whatever key or password is used. u
// is nil if the user does not exist.
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

// An Outcome is the result of an attempt to log in.
type Outcome uint8

// The outcomes. A login with a key and a password is first reported as Partial, and then once more.
const (
	Accepted Outcome = iota // the user is logged in
	Partial                 // the key was right, but the password is still missing
	Refused
	Busy // too many passwords are being checked: see ErrBusy
)

// String returns the outcome as one word.
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

// An Event is a line for an audit log. It contains no secrets, unless a user typed a secret as the
// user name.
type Event struct {
	Outcome Outcome
	User    string // as received from the peer, but truncated to 64 bytes; may contain any bytes
	Peer    netip.Addr
	Method  string
	Offered bool // the peer only offered a key, and was refused before it proved that it owns the key

	Key, Authority, KeyID string // the same values as in Login
	Serial                uint64

	Reason string // why the login was refused
}

// LogValue returns the fields that are set as a group of attributes.
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

// describe sets the fields that describe a key.
func (e *Event) describe(k ssh.PublicKey) {
	e.Key = fingerprint(k)
	if c, ok := k.(*ssh.Certificate); ok {
		e.Authority, e.KeyID, e.Serial = fingerprint(c.SignatureKey), shorten(c.KeyId), c.Serial
	}
}
