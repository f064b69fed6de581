// Package passwords checks the names and passwords in HTTP requests (RFC 7617). Each request
// contains them, so the package remembers which were right. It also limits guessing.
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
	// VerifiedFor is how long a right password is remembered and not hashed again. Browsers send
	// it with each request, and hashing it takes some 20 ms and 19 MiB.
	VerifiedFor = 5 * time.Minute

	// MaxVerified is how many passwords are remembered at a time.
	MaxVerified = 4096

	// MaxChecks and MaxChecksPerSource are how many requests may wait for a password check. One
	// client has several connections, whose requests all arrive at once. Package users limits how
	// many are checked at a time.
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
	Exempt []netip.Prefix // not refused for wrong passwords

	// Checked, if set, is called for each password that was checked and not remembered.
	Checked func(name string, from netip.Addr, err error)

	once  sync.Once
	guard penalty.Guard
	key   [sha256.Size]byte

	mu    sync.Mutex
	known map[[sha256.Size]byte]*verdict // guarded by mu
}

// A verdict is the result of a password check.
type verdict struct {
	done  chan struct{} // closed when the check is over; the fields below can then be read
	err   error
	name  string
	login *users.Login // nil if err is not nil
	until time.Time    // when it is forgotten
}

func (l *Checker) init() {
	l.guard = penalty.Guard{MaxHandshakes: MaxChecks, MaxHandshakesPerSource: MaxChecksPerSource, Exempt: l.Exempt}
	_, _ = rand.Read(l.key[:]) // never fails
	l.known = map[[sha256.Size]byte]*verdict{}
}

// An attempt is a name and a password sent from an address.
type attempt struct {
	at       time.Time
	from     netip.Addr
	name     string
	password string
}

// Check returns the login for a name and password that a client at an address sent at a given
// time. Its error is a *penalty.Refusal, a *users.Refusal, users.ErrBusy, or the cause of ctx.
//
// A source that has guessed too often gets no answer for a while, not even for a remembered
// password. Otherwise it could continue to guess that password.
func (l *Checker) Check(ctx context.Context, at time.Time, from netip.Addr, name, password string) (*users.Login, error) {
	l.once.Do(l.init)
	visit, err := l.guard.Admit(at, from)
	if err != nil {
		return nil, err
	}
	// Only a wrong password costs anything. A visit that ends without success would also cost
	// something, so every visit is counted as a success.
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
		// The request that started the check ended before the check did. Try again.
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

// claim returns the verdict on a password, which may be pending. For a new password, it returns a
// new verdict and true, and the caller has to check the password.
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

// makeRoom forgets verdicts that are too old. If no verdict is, it forgets any verdict whose check
// is over; that user only has to wait for one more check. The caller holds mu.
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

// forget forgets a verdict, unless it has been replaced.
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

// checkPassword checks a password when it is the turn of the visitor's source. If the password is
// wrong, that is counted before the next password of the source is checked.
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

// holds reports whether a verdict is still valid. If a change of the users made it invalid, the
// password has to be checked again.
func (v *verdict) holds(d *users.Directory) bool {
	u, ok := d.User(v.name)
	return ok && u.Limit == v.login.User.Limit && d.Recheck(v.login) == nil
}
