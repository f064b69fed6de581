package rate

import "sync"

// A Pair is a Bucket for each way.
type Pair struct{ Sent, Received Bucket }

// Set sets the rate of both: see [Bucket.Set].
func (p *Pair) Set(rate int64) {
	p.Sent.Set(rate)
	p.Received.Set(rate)
}

// Accounts keeps a [Pair] for each account that somebody uses at the time. The
// zero Accounts is ready for use, and any goroutine may call its methods.
type Accounts struct {
	mu     sync.Mutex
	byName map[string]*account // mu
}

type account struct {
	Pair
	users int // mu of Accounts
}

// Enter returns what all who use an account share, until Leave. The rate that was
// given last holds for all of them.
func (a *Accounts) Enter(name string, rate int64) *Pair {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.byName[name]
	if one == nil {
		if a.byName == nil {
			a.byName = map[string]*account{}
		}
		one = &account{}
		a.byName[name] = one
	}
	one.users++
	one.Set(rate)
	return &one.Pair
}

// Leave undoes one Enter. With the last, what the account owed is forgotten.
func (a *Accounts) Leave(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.byName[name]; one != nil {
		if one.users--; one.users == 0 {
			delete(a.byName, name)
		}
	}
}
