package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/users"
)

// login checks the name and the password in the request. If it returns an error, it has also set the
// header fields that the answer needs.
func (x *exchange) login() (*users.Login, error) {
	if !x.TLS && !x.h.PlainPasswords {
		return nil, errPlain // there is no challenge, because it would make a browser send a password
	}
	name, password, ok := x.r.BasicAuth()
	if !ok {
		return nil, x.challenge(errLogin)
	}
	l, err := x.h.state.logins.Check(x.ctx(), x.Began, x.Peer.Addr(), name, password)
	if refusal, ok := errors.AsType[*penalty.Refusal](err); ok {
		if refusal.Cause != penalty.WrongPasswords {
			return nil, fmt.Errorf("%w: %w", errManyTries, err)
		}
		x.set("Retry-After", strconv.Itoa(int(refusal.For/time.Second)+1))
		return nil, fmt.Errorf("%w: %w", errPenalized, err)
	}
	if _, ok := errors.AsType[*users.Refusal](err); ok {
		return nil, x.challenge(fmt.Errorf("%w: %w", errLogin, err))
	}
	return l, err
}

// challenge makes the answer ask for a name and a password (RFC 7617), and returns err.
func (x *exchange) challenge(err error) error {
	x.set("Www-Authenticate", `Basic realm="`+cmp.Or(x.h.Realm, defaultRealm)+`", charset="UTF-8"`)
	return err
}

// audit counts a check of a password, and reports it to Handler.Audit.
func (h *Handler) audit(name string, from netip.Addr, err error) {
	e := users.Event{User: cut(name, maxUser), Peer: from, Method: "password"}
	refusal, wrong := errors.AsType[*users.Refusal](err)
	switch {
	case err == nil:
		h.state.counts.logins.Add(1)
	case wrong:
		h.state.counts.failures.Add(1)
		e.Outcome, e.Reason = users.Refused, refusal.Reason
	case errors.Is(err, users.ErrBusy):
		e.Outcome, e.Reason = users.Busy, err.Error()
	default:
		return // the client is gone, and nothing was checked
	}
	if h.Audit != nil {
		h.Audit(e)
	}
}

// maxUser is the largest number of bytes of a user's name that are logged. A client may send any bytes.
const maxUser = 64
