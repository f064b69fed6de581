// Package passwords checks the names and passwords in HTTP requests (RFC 7617). Each request
// contains a name and a password, so the package remembers which passwords were right. It also
// limits how fast passwords can be guessed.
package passwords

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/users"
)

const (
	// VerifiedFor is how long a right password is remembered, so that it need not be hashed again.
	// Browsers send it with each request, and hashing it takes some 20 ms and 19 MiB.
	VerifiedFor = 5 * time.Minute

	// MaxVerified is how many passwords are remembered at a time.
	MaxVerified = 4096

	// MaxChecks and MaxChecksPerSource limit the number of requests that wait for a password check,
	// in all and of one source. One client has several connections, whose requests may all arrive at
	// once. Package users limits how many passwords are checked at a time.
	MaxChecks, MaxChecksPerSource = 256, 64
)

// A Checker checks names and passwords, and remembers those that were right. Set its fields before
// its first use.
//
// It remembers a hash of the name, the password and the client's address, keyed with a secret of
// this process. So after a login from one address, a client at another address cannot try the same
// password without being counted.
type Checker struct {
	Users  *users.Directory
	Exempt []netip.Prefix // networks whose addresses are not refused after wrong passwords

	// Checked, if set, is called with the result of each check. It is not called for a password that
	// is remembered.
	Checked func(name string, from netip.Addr, err error)

	once  sync.Once
	guard penalty.Guard
	key   [sha256.Size]byte

	mu    sync.Mutex
	known map[[sha256.Size]byte]*verdict // the verdicts, by the key that hash returns; guarded by mu
}

// A verdict is the result of a password check, which may still be pending.
type verdict struct {
	done  chan struct{} // closed when the check is over; only then err and login may be read
	err   error
	name  string
	login *users.Login // nil if err is not nil
	until time.Time    // when the verdict is forgotten; zero while the check is pending
}

func (l *Checker) init() {
	l.guard = penalty.Guard{MaxHandshakes: MaxChecks, MaxHandshakesPerSource: MaxChecksPerSource, Exempt: l.Exempt}
	_, _ = rand.Read(l.key[:]) // never fails
	l.known = map[[sha256.Size]byte]*verdict{}
}

// An attempt holds the name and the password of a request, the time when the request arrived, and
// the address of its sender.
type attempt struct {
	at       time.Time
	from     netip.Addr
	name     string
	password string
}

// Check checks a name and a password that the client with the address `from` sent at the time `at`.
// It returns the login if they are right. Its error is a *penalty.Refusal, a *users.Refusal,
// users.ErrBusy, or the cause of ctx.
//
// A source that has sent too many wrong passwords is refused for a while, even if the password is
// remembered as right. Otherwise the source could continue to guess that password.
func (l *Checker) Check(ctx context.Context, at time.Time, from netip.Addr, name, password string) (*users.Login, error) {
	l.once.Do(l.init)
	visit, err := l.guard.Admit(at, from)
	if err != nil {
		return nil, err
	}
	// Only a wrong password should add to the debt of the source. A visit that ends without a
	// success adds to it too, so every visit is recorded as a success.
	defer func() {
		visit.Succeed()
		visit.End(time.Now())
	}()
	if err := visit.Guess(at); err != nil {
		return nil, err
	}
	key := l.hash(from, name, password)
	for {
		v, mine := l.claim(key, name)
		if mine {
			return l.verify(ctx, visit, key, v, attempt{at, from, name, password})
		}
		select {
		case <-v.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if v.err == nil {
			if v.holds(l.Users) {
				return v.login, nil
			}
			l.forget(key, v)
			continue
		}
		if _, wrong := errors.AsType[*users.Refusal](v.err); wrong || errors.Is(v.err, users.ErrBusy) {
			return nil, v.err
		}
		// The check failed for a reason that only concerns the request that started it: for example, that
		// request was cancelled. So this request checks the password itself, or waits for another check.
	}
}

// hash returns the key under which a password is remembered.
func (l *Checker) hash(from netip.Addr, name, password string) (sum [sha256.Size]byte) {
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

// claim returns the verdict on a password, which may be pending. If there is no verdict, or it is too
// old, claim returns a new one and true, and the caller has to check the password.
func (l *Checker) claim(key [sha256.Size]byte, name string) (v *verdict, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v = l.known[key]
	if v != nil && (v.until.IsZero() || time.Now().Before(v.until)) {
		return v, false
	}
	if v == nil && len(l.known) >= MaxVerified {
		l.makeRoom(time.Now())
	}
	v = &verdict{done: make(chan struct{}), name: name}
	l.known[key] = v
	return v, true
}

// makeRoom forgets the verdicts that are too old. If that is not enough, it forgets any one verdict
// whose check is over; the only effect is that this password is checked once more. The caller holds
// mu.
func (l *Checker) makeRoom(now time.Time) {
	for key, v := range l.known {
		if !v.until.IsZero() && now.After(v.until) {
			delete(l.known, key)
		}
	}
	if len(l.known) < MaxVerified {
		return
	}
	for key, v := range l.known {
		if !v.until.IsZero() {
			delete(l.known, key)
			return
		}
	}
}

// forget forgets the verdict v on a password, unless another verdict has replaced it.
func (l *Checker) forget(key [sha256.Size]byte, v *verdict) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[key] == v {
		delete(l.known, key)
	}
}

// verify checks a password, and wakes all requests that wait for the verdict.
func (l *Checker) verify(ctx context.Context, visit *penalty.Visit, key [sha256.Size]byte, v *verdict, a attempt) (*users.Login, error) {
	login, err := l.checkPassword(ctx, visit, a)
	l.mu.Lock()
	v.err = err
	if err == nil {
		v.login, v.until = login, time.Now().Add(VerifiedFor)
	} else if l.known[key] == v {
		delete(l.known, key)
	}
	l.mu.Unlock()
	close(v.done)
	if l.Checked != nil {
		l.Checked(a.name, a.from, err)
	}
	return login, err
}

// checkPassword waits until another password of the visitor's source may be checked, and then
// checks this one. If this password is wrong, that is counted before the next waiting password of
// the source is checked.
func (l *Checker) checkPassword(ctx context.Context, visit *penalty.Visit, a attempt) (*users.Login, error) {
	end, err := visit.BeginGuess(ctx, time.Now)
	if err != nil {
		return nil, err
	}
	defer end()
	login, err := l.Users.Password(ctx, users.Attempt{Now: a.at, Peer: a.from}, a.name, []byte(a.password))
	if _, wrong := errors.AsType[*users.Refusal](err); wrong {
		visit.Fail(time.Now(), penalty.BadLogin)
	}
	return login, err
}

// holds reports whether the verdict that a password is right is still valid. If the user was
// removed or changed since the check, the verdict is not valid, and the password has to be checked
// again.
func (v *verdict) holds(d *users.Directory) bool {
	u, ok := d.User(v.name)
	return ok && u.Limit == v.login.User.Limit && d.Recheck(v.login) == nil
}
