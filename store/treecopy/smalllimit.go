package treecopy

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// listsAtOnce is how many directories are listed at once.
const listsAtOnce = 16

const (
	// maxSmall is the largest number of small files under way at once.
	maxSmall = 512

	// smallAtOnce is how many small files are under way at once if the round trip is short.
	smallAtOnce = 64

	// smallRate is the intended rate if the round trip is long, in small files a second. It is more
	// than two cores can copy, so it applies if both ends are fast enough. Each file takes at most
	// smallTrips round trips.
	smallRate  = 8000
	smallTrips = 3

	// othersOpen is how many files and directories may be open besides small files.
	othersOpen = 2 * listsAtOnce

	// fewAtOnce is how many open files at once every server is expected to allow. If a server
	// refuses a file when no more are open, the reason is not their number.
	fewAtOnce = 8

	// maxOtherReasons is how many files may turn out to be refused for another reason than the
	// number of open files. After that, refusals no longer lower that number.
	maxOtherReasons = 4
)

// A smallLimit bounds the number of small files under way: by the number that is useful for the
// round trip, and by how many files a server, or this process, can have open. If a server does not
// announce how many it allows, its refusals show it.
type smallLimit struct {
	target *tree // the target of the copy

	mu      sync.Mutex
	changed sync.Cond
	trip    time.Duration // mu: the shortest round trip; 0 if none is known
	handles int           // mu: how many small files may be open, according to the servers
	most    int           // mu: the same, according to refusals
	workers int           // mu: for small files
	running int           // mu: small files
	peak    int           // mu: the largest value of running since most was lowered
	lowered int           // mu: how often most was lowered
	others  int           // mu: refusals for other reasons
}

// init sets the limit for a target. If a copy in place fails, all files under way remain incomplete
// under their own names, so no more of them are copied at once than over a short path.
func (l *smallLimit) init(target *tree, inPlace bool) {
	l.target = target
	l.handles, l.most = maxSmall, maxSmall
	if inPlace {
		l.most = smallAtOnce
	}
	l.changed.L = &l.mu
	l.measure(target)
}

// restart resets the count to one worker, which is yet to be started.
func (l *smallLimit) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = 1
}

// measure reads a tree's measurements of the path to its server. It keeps the shortest round trip
// so far, because longer ones may include time spent waiting for the files themselves. The caller
// holds mu, or no other goroutine uses l yet.
func (l *smallLimit) measure(t *tree) {
	d := t.can.Distance
	if d == nil {
		return
	}
	if n := d.OpenFiles(); n > 0 {
		l.handles = min(l.handles, max(n-othersOpen, fewAtOnce))
	}
	if trip := d.RoundTrip(); trip > 0 && (l.trip == 0 || trip < l.trip) {
		l.trip = trip
	}
}

// limit returns how many small files may be under way. The caller holds mu.
func (l *smallLimit) limit() int {
	worth := max(int(l.trip*smallTrips*smallRate/time.Second), smallAtOnce)
	return min(worth, l.handles, l.most)
}

// startAnother reports whether to start another worker for small files. The calling worker has just
// taken a file from a tree.
func (l *smallLimit) startAnother(from *tree) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.measure(from)
	l.measure(l.target)
	if l.workers >= l.limit() {
		return false
	}
	l.workers++
	return true
}

// An attempt is one attempt to open a file or a directory, or to copy a file.
type attempt struct {
	counts  bool // for a small file
	lowered int  // smallLimit.lowered when it began
	before  int  // smallLimit.most before the attempt lowered it; 0 if it did not
}

// try calls open, which opens a directory, or opens and copies a file, as soon as few enough small
// files are under way. If open returns a [tooManyError], try calls it again with fewer files under
// way. small says that open is for a small file.
func (l *smallLimit) try(small bool, open func() error) error {
	for a := (attempt{counts: small}); ; {
		l.begin(&a)
		err := open()
		if !l.end(&a, err) {
			return unmarked(err)
		}
	}
}

// begin waits until few enough small files are under way for an attempt.
func (l *smallLimit) begin(a *attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a.counts && l.running >= l.limit() || l.running > l.limit() {
		l.changed.Wait()
	}
	a.lowered = l.lowered
	if a.counts {
		l.running++
		l.peak = max(l.peak, l.running)
	}
}

// end ends an attempt, and reports whether to repeat it with fewer small files under way. If a file
// is refused even with few files under way, the cause is not their number, and end may restore the
// old number.
func (l *smallLimit) end(a *attempt, err error) (again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.counts {
		l.running--
		l.changed.Broadcast()
	}
	if _, ok := errors.AsType[*tooManyError](err); !ok {
		return false
	}
	switch {
	case l.others >= maxOtherReasons:
		return false
	case a.lowered != l.lowered: // fewer files are under way by now
		return true
	case l.peak <= fewAtOnce:
		l.otherReason(a)
		return false
	}
	if a.before == 0 {
		a.before = l.most
	}
	l.most = max(l.peak/2, fewAtOnce)
	l.lowered++
	l.peak = 0
	return true
}

// otherReason records that a refusal has another cause than the number of open files. The caller
// holds mu.
func (l *smallLimit) otherReason(a *attempt) {
	if a.before == 0 {
		return
	}
	if l.others++; l.others == maxOtherReasons {
		a.before = min(a.before, smallAtOnce) // from now on, refusals do not lower it
	}
	l.most = max(l.most, a.before)
	l.changed.Broadcast()
}

// A tooManyError wraps an error from opening a file that may mean that too many are open.
type tooManyError struct{ error }

func (e *tooManyError) Unwrap() error { return e.error }

// unmarked returns the error inside a [tooManyError]; other errors it returns unchanged.
func unmarked(err error) error {
	if e, ok := err.(*tooManyError); ok {
		return e.error
	}
	return err
}

// notOpened marks an error from opening something in a tree, if its cause may be the number of open
// files.
func notOpened(t *tree, err error) error {
	if err == nil {
		return nil
	}
	if d := t.can.Distance; d != nil && d.TooManyOpen(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return &tooManyError{err}
	}
	return err
}
