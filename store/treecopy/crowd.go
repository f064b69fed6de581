package treecopy

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

const (
	// smallAtOnce is how many small files are on their way at once over a short path.
	smallAtOnce = 64

	// smallRate is how many small files a second a long path is to carry, if both ends
	// can: more than two cores copy. Each file takes smallTrips round trips at most.
	smallRate  = 8000
	smallTrips = 3

	// othersOpen is how many files and directories may be open besides small files.
	othersOpen = 2 * listsAtOnce

	// fewAtOnce is how many files at once every server is expected to manage. A refusal
	// with so few is not due to their number.
	fewAtOnce = 8

	// maxDoubts is how many files may turn out to be refused for another reason. From then
	// on refusals are believed.
	maxDoubts = 4
)

// A crowd bounds how many small files are on their way at once: by what the path is worth,
// and by how many files a server, or this process, can have open. Where nothing announces
// that, refusals show it.
type crowd struct {
	target any // the tree that is copied to

	mu      sync.Mutex
	changed sync.Cond
	trip    time.Duration // mu: the shortest round trip; 0 if none is known
	handles int           // mu: how many small files may be open as the servers say
	most    int           // mu: the same, as their refusals show
	workers int           // mu: for small files
	running int           // mu: small files
	peak    int           // mu: the most of them since most was lowered
	era     int           // mu: how often that was
	doubts  int           // mu: refusals that were due to something else
}

// init makes a crowd for a target. The first worker is yet to be started.
func (c *crowd) init(target any) {
	c.target, c.workers = target, 1
	c.handles, c.most = MaxSmall, MaxSmall
	c.changed.L = &c.mu
	c.measure(target)
}

// measure takes what a tree knows of the path to its server. The shortest round trip of
// all counts: others may have waited behind the files themselves. The caller holds mu, or
// is alone.
func (c *crowd) measure(tree any) {
	d, ok := tree.(Distant)
	if !ok {
		return
	}
	if n := d.OpenFiles(); n > 0 {
		c.handles = min(c.handles, max(n-othersOpen, fewAtOnce))
	}
	if t := d.RoundTrip(); t > 0 && (c.trip == 0 || t < c.trip) {
		c.trip = t
	}
}

// limit returns how many small files may be on their way. The caller holds mu.
func (c *crowd) limit() int {
	worth := max(int(c.trip*smallTrips*smallRate/time.Second), smallAtOnce)
	return min(worth, c.handles, c.most)
}

// hire reports whether another worker for small files is to be started, besides the one
// that has taken a file from a tree.
func (c *crowd) hire(from any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measure(from)
	c.measure(c.target)
	if c.workers >= c.limit() {
		return false
	}
	c.workers++
	return true
}

// An entry is an attempt to open a file or a directory, or to copy it.
type entry struct {
	counts bool // it is a small file
	era    int  // when the attempt began
	before int  // crowd.most before the entry lowered it; 0 if it did not
}

// enter waits until there are few enough small files on their way for an attempt.
func (c *crowd) enter(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e.counts && c.running >= c.limit() || c.running > c.limit() {
		c.changed.Wait()
	}
	e.era = c.era
	if e.counts {
		c.running++
		c.peak = max(c.peak, c.running)
	}
}

// leave ends it.
func (c *crowd) leave(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.counts {
		c.running--
		c.changed.Broadcast()
	}
}

// again reports whether an attempt that failed is to be made again with fewer small files
// on their way. If a file is refused even with a few, it is not due to their number, which
// may be what it was.
func (c *crowd) again(e *entry, err error) bool {
	if _, ok := errors.AsType[*tooManyError](err); !ok {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.doubts >= maxDoubts:
		return false
	case e.era != c.era: // fewer are on their way by now
		return true
	case c.peak <= fewAtOnce:
		c.believe(e)
		return false
	}
	if e.before == 0 {
		e.before = c.most
	}
	c.most = max(c.peak/2, fewAtOnce)
	c.era++
	c.peak = 0
	return true
}

// believe notes that an entry is refused for a reason of its own. The caller holds mu.
func (c *crowd) believe(e *entry) {
	if e.before == 0 {
		return
	}
	if c.doubts++; c.doubts == maxDoubts {
		e.before = min(e.before, smallAtOnce) // no refusal lowers it any more
	}
	c.most = max(c.most, e.before)
	c.changed.Broadcast()
}

// A tooManyError is why a file could not be opened: maybe as too many are open.
type tooManyError struct{ error }

func (e *tooManyError) Unwrap() error { return e.error }

// unmarked returns the error without the mark.
func unmarked(err error) error {
	if e, ok := err.(*tooManyError); ok {
		return e.error
	}
	return err
}

// notOpened marks an error of opening something in a tree if it may come of the number of
// files that are open.
func notOpened(tree any, err error) error {
	d, ok := tree.(Distant)
	if ok && d.TooManyOpen(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return &tooManyError{err}
	}
	return err
}
