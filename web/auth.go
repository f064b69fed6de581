package web

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/users"
)

const (
	// verifiedFor is how long a password that was right is known again without
	// being hashed. Browsers send it with each request, and to hash it takes
	// some 20 ms and 19 MiB.
	verifiedFor = 5 * time.Minute

	// maxVerified is how many of them are known at a time.
	maxVerified = 4096

	// How many requests may wait for a password to be checked. One client has
	// several connections, which all come at once; package users has how many
	// are checked at a time.
	maxChecks          = 256
	maxChecksPerSource = 64
)

func (l *logins) init(h *Handler) {
	l.guard = penalty.Guard{MaxHandshakes: maxChecks, MaxHandshakesPerSource: maxChecksPerSource, Exempt: h.Exempt}
	_, _ = rand.Read(l.key[:]) // never fails
	l.known = map[[sha256.Size]byte]*verdict{}
}

// login returns who the request's name and password prove its sender to be.
func (x *exchange) login() (*users.Login, error) {
	if !x.TLS && !x.h.PlainPasswords {
		return nil, errPlain // and no challenge, or the browser would send one
	}
	name, password, ok := x.r.BasicAuth()
	if !ok {
		return nil, x.challenge(errLogin)
	}
	l, err := x.h.logins.check(x, name, password)
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

// challenge asks for a name and a password (RFC 7617). It returns err.
func (x *exchange) challenge(err error) error {
	x.set("Www-Authenticate", `Basic realm="`+cmp.Or(x.h.Realm, DefaultRealm)+`", charset="UTF-8"`)
	return err
}

// check returns the login of a name and password. Its errors are a
// *penalty.Refusal, a *users.Refusal, users.ErrBusy, or that the request has ended.
//
// A source that has guessed too often gets no answer for a while, not even to what is
// known: otherwise it could continue to guess at that.
func (l *logins) check(x *exchange, name, password string) (*users.Login, error) {
	from := x.Peer.Addr()
	visit, err := l.guard.Admit(x.Began, from)
	if err != nil {
		return nil, err
	}
	// Only a password that was wrong costs anything. Visitors who end in another way
	// owe for it, so each has succeeded.
	defer func() {
		visit.Succeed()
		visit.End(time.Now())
	}()
	if err := visit.Guess(x.Began); err != nil {
		return nil, err
	}
	key := l.hash(from, name, password)
	for {
		v, mine := l.claim(key, name)
		if mine {
			return l.verify(x, visit, key, v, password)
		}
		select {
		case <-v.done:
		case <-x.ctx().Done():
			return nil, context.Cause(x.ctx())
		}
		if v.err == nil {
			if v.holds(x.h.Users) {
				return v.login, nil
			}
			l.forget(key, v)
			continue
		}
		if _, wrong := errors.AsType[*users.Refusal](v.err); wrong || errors.Is(v.err, users.ErrBusy) {
			return nil, v.err
		}
		// The request that asked first ended before there was an answer.
	}
}

// hash returns what a password is known by.
func (l *logins) hash(from netip.Addr, name, password string) (sum [sha256.Size]byte) {
	mac := hmac.New(sha256.New, l.key[:])
	addr := from.Unmap().WithZone("").As16()
	mac.Write(addr[:])
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(name)))
	mac.Write(n[:])
	mac.Write([]byte(name))
	mac.Write([]byte(password))
	mac.Sum(sum[:0])
	return sum
}

// claim returns the verdict on a password, known or under way; or one that is the
// caller's to reach.
func (l *logins) claim(key [sha256.Size]byte, name string) (v *verdict, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v = l.known[key]
	if v != nil && (v.until.IsZero() || time.Now().Before(v.until)) {
		return v, false
	}
	if v == nil && len(l.known) >= maxVerified {
		l.makeRoom(time.Now())
	}
	v = &verdict{done: make(chan struct{}), name: name}
	l.known[key] = v
	return v, true
}

// makeRoom forgets what is too old, or else any verdict that is reached: its user
// only has to wait a little longer once. The caller holds mu.
func (l *logins) makeRoom(now time.Time) {
	for key, v := range l.known {
		if !v.until.IsZero() && now.After(v.until) {
			delete(l.known, key)
		}
	}
	if len(l.known) < maxVerified {
		return
	}
	for key, v := range l.known {
		if !v.until.IsZero() {
			delete(l.known, key)
			return
		}
	}
}

// forget forgets a verdict, unless it has been replaced.
func (l *logins) forget(key [sha256.Size]byte, v *verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[key] == v {
		delete(l.known, key)
	}
}

// verify checks a password, and lets all who wait for it know.
func (l *logins) verify(x *exchange, visit *penalty.Visit, key [sha256.Size]byte, v *verdict, password string) (*users.Login, error) {
	login, err := x.checkPassword(visit, v.name, password)
	l.mu.Lock()
	v.err = err
	if err == nil {
		v.login, v.until = login, time.Now().Add(verifiedFor)
	} else if l.known[key] == v {
		delete(l.known, key)
	}
	l.mu.Unlock()
	close(v.done)
	x.audit(v.name, err)
	return login, err
}

// checkPassword checks a password when it is the turn of the visitor's source. One
// that is wrong counts before the next of the source is checked.
func (x *exchange) checkPassword(visit *penalty.Visit, name, password string) (*users.Login, error) {
	end, err := visit.BeginGuess(x.ctx(), time.Now)
	if err != nil {
		return nil, err
	}
	defer end()
	login, err := x.h.Users.Password(x.ctx(), users.Attempt{Now: x.Began, Peer: x.Peer.Addr()}, name, []byte(password))
	if _, wrong := errors.AsType[*users.Refusal](err); wrong {
		visit.Fail(time.Now(), penalty.BadLogin)
	}
	return login, err
}

// audit reports a password that was checked.
func (x *exchange) audit(name string, err error) {
	e := users.Event{User: cut(name, maxUser), Peer: x.Peer.Addr(), Method: "password"}
	refusal, wrong := errors.AsType[*users.Refusal](err)
	switch {
	case err == nil:
		x.h.counts.logins.Add(1)
	case wrong:
		x.h.counts.failures.Add(1)
		e.Outcome, e.Reason = users.Refused, refusal.Reason
	case errors.Is(err, users.ErrBusy):
		e.Outcome, e.Reason = users.Busy, err.Error()
	default:
		return // the client has gone, and nothing was checked
	}
	if x.h.Audit != nil {
		x.h.Audit(e)
	}
}

// maxUser is how many bytes of a user's name are logged; the name may be anything.
const maxUser = 64

// holds reports whether a verdict is still good: if the users have changed so that it
// is not, it has to be reached anew.
func (v *verdict) holds(d *users.Directory) bool {
	u, ok := d.User(v.name)
	return ok && u.Limit == v.login.User.Limit && d.Recheck(v.login) == nil
}
