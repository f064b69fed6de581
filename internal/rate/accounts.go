package rate

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxOwing bounds the number of accounts that have no users but are kept because they owe.
	maxOwing = 4096

	// lookEvery is the shortest time between two searches for accounts to forget: those without
	// users that no longer owe anything (see [Accounts]).
	lookEvery = time.Second
)

// A Pair limits the bytes of one account, with a Bucket for each direction.
type Pair struct {
	Sent, Received Bucket
	users          atomic.Int64 // number of calls of Accounts.Enter without a call of Leave
}

// Users returns how many users have entered an account of [Accounts] and have not left it.
func (p *Pair) Users() int64 { return p.users.Load() }

// Set sets the rate of both Buckets: see [Bucket.Set].
func (p *Pair) Set(rate int64) {
	p.Sent.Set(rate)
	p.Received.Set(rate)
}

func (p *Pair) idle(now time.Time) bool { return p.Sent.idle(now) && p.Received.idle(now) }

// Accounts keeps a [Pair] for each account that is in use, and for each account that still owes: bytes
// of it were let through earlier than its rate allows. So users cannot avoid a limit by
// reconnecting. The zero Accounts is ready for use, and any goroutine may call its methods.
type Accounts[Name comparable] struct {
	mu     sync.Mutex
	byName map[Name]*Pair // the Pair of each account that is kept; guarded by mu
	owing  int            // number of accounts in byName that have no users; guarded by mu
	looked time.Time      // when all accounts without users were last checked; guarded by mu
}

// Enter returns the Pair of an account, which all its users share. The rate that was passed last, in
// bytes a second, applies to all of them. The caller must call Leave later.
func (a *Accounts[Name]) Enter(name Name, rate int64) *Pair {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.byName[name]
	switch {
	case one == nil:
		if a.byName == nil {
			a.byName = map[Name]*Pair{}
		}
		one = &Pair{}
		a.byName[name] = one
	case one.Users() == 0:
		a.owing--
	}
	one.users.Add(1)
	one.Set(rate)
	return one
}

// Leave undoes one Enter. After the last user has left, a later call of Leave forgets the account when
// it no longer owes anything, or earlier if there are too many accounts that owe.
func (a *Accounts[Name]) Leave(name Name) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.byName[name]
	if one == nil || one.Users() == 0 {
		return
	}
	if one.users.Add(-1) > 0 {
		return
	}
	now := time.Now()
	a.owing++
	if one.idle(now) {
		a.forget(name)
	}
	if a.owing > 0 && now.Sub(a.looked) >= lookEvery {
		a.looked = now
		for name, one := range a.byName {
			if one.Users() == 0 && one.idle(now) {
				a.forget(name)
			}
		}
	}
	if a.owing > maxOwing {
		for other, one := range a.byName {
			if one.Users() == 0 && other != name {
				a.forget(other)
				break
			}
		}
	}
}

// forget removes an account that has no users. The caller holds mu.
func (a *Accounts[Name]) forget(name Name) {
	delete(a.byName, name)
	a.owing--
}
