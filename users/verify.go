package users

import (
	"context"
	"errors"
	"hash/maphash"
	"runtime"
	"sync/atomic"
)

// What checking passwords may take.
const (
	// maxChecks is how many are checked at a time, on half of the cores at
	// most. With it and the bounds of hashes goes how much memory that takes:
	// 512 MiB, and with hashes of our own making 76.
	maxChecks = 4

	// maxWaiting is how many more wait for their turn. Beyond that nobody
	// learns whether a password is right.
	maxWaiting = 64
)

// ErrBusy means that too many passwords are being checked. It says nothing
// about this one.
var ErrBusy = errors.New("too many passwords are waiting to be checked")

// A desk is where passwords are checked.
type desk struct {
	places  chan struct{}
	waiting atomic.Int64
	checked atomic.Int64 // in all, for tests
}

// deskPlaces returns how many passwords are checked at a time.
func deskPlaces() int { return max(1, min(maxChecks, runtime.GOMAXPROCS(0)/2)) }

// check reports whether a password is the one of a hash, when its turn comes.
func (d *desk) check(ctx context.Context, h Hash, password []byte) (bool, error) {
	if d.waiting.Add(1) > maxWaiting {
		d.waiting.Add(-1)
		return false, ErrBusy
	}
	select {
	case d.places <- struct{}{}:
		d.waiting.Add(-1)
	case <-ctx.Done():
		d.waiting.Add(-1)
		return false, context.Cause(ctx)
	}
	defer func() { <-d.places }()
	d.checked.Add(1)
	return h.matches(password), nil
}

// standIn returns the hash to check where a user has none, or is none. So the
// answer takes as long as for somebody who has one, and does not tell.
//
// If hashes differ in cost, a name that always took as long as the dearest
// would be told by that. So each name stands for one of the users, always the
// same, as far as nobody knows which.
func (d *Directory) standIn(t *table, name string) Hash {
	if len(t.hashes) == 0 {
		return anyHash
	}
	return t.hashes[maphash.String(d.seed, name)%uint64(len(t.hashes))]
}

// anyHash is one that costs what new ones do.
var anyHash = Hash{
	text:    "none",
	salt:    make([]byte, argonSalt),
	tag:     make([]byte, argonTag),
	memory:  argonMemory,
	passes:  argonPasses,
	threads: argonThreads,
}
