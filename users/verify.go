package users

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
)

// Bounds for checking passwords.
const (
	// maxChecks is how many passwords are checked at a time, on at most half of the cores. Together
	// with the bounds of hashes it limits the memory to 512 MiB, or to 76 MiB with the hashes that
	// haul makes.
	maxChecks = 4

	// maxWaiting is how many more passwords may wait. Beyond that, passwords are not checked.
	maxWaiting = 64
)

// ErrBusy means that too many passwords are being checked. It says nothing about this password.
var ErrBusy = errors.New("too many passwords are waiting to be checked")

// A verifyLimiter checks a bounded number of passwords at a time.
type verifyLimiter struct {
	places  chan struct{}
	waiting atomic.Int64
	checked atomic.Int64 // in total, for tests
}

// parallelChecks returns how many passwords are checked at a time.
func parallelChecks() int { return max(1, min(maxChecks, runtime.GOMAXPROCS(0)/2)) }

// check waits for its turn, and reports whether a password matches a hash.
func (l *verifyLimiter) check(ctx context.Context, h Hash, password []byte) (bool, error) {
	if l.waiting.Add(1) > maxWaiting {
		l.waiting.Add(-1)
		return false, ErrBusy
	}
	select {
	case l.places <- struct{}{}:
		l.waiting.Add(-1)
	case <-ctx.Done():
		l.waiting.Add(-1)
		return false, context.Cause(ctx)
	}
	defer func() { <-l.places }()
	l.checked.Add(1)
	return h.matches(password), nil
}
