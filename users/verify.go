package users

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
)

// These constants limit the CPU time and the memory for checking passwords.
const (
	// maxChecks is the largest number of passwords that are checked at the same time. On a machine
	// with few cores the number is smaller, so that the checks use at most half of the cores.
	// Together with the limits for hashes, it limits the memory to 512 MiB, or to 76 MiB if haul has
	// made the hashes.
	maxChecks = 4

	// maxWaiting is how many passwords may wait to be checked. While that many wait, a further password
	// is refused without a check.
	maxWaiting = 64
)

// ErrBusy says that a password was not checked, because too many others are being checked.
var ErrBusy = errors.New("too many passwords are waiting to be checked")

// A verifyLimiter limits the number of passwords that are checked at the same time.
type verifyLimiter struct {
	places  chan struct{} // holds an element for each password that is being checked
	waiting atomic.Int64  // number of passwords that wait to be checked
	checked atomic.Int64  // total number of checks, for tests
}

// parallelChecks returns the number of passwords that may be checked at the same time.
func parallelChecks() int { return max(1, min(maxChecks, runtime.GOMAXPROCS(0)/2)) }

// check reports whether a password matches a hash. Before that, it waits until the limit allows
// another check.
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
