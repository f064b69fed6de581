package treecopy

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// listsAtOnce is the largest number of directories that are listed at the same time.
const listsAtOnce = 16

const (
	// maxSmall is the largest number of small files that are copied at the same time.
	maxSmall = 512

	// smallAtOnce is the number of small files that are copied at the same time if the round trip
	// is short.
	smallAtOnce = 64

	// smallRate is the number of small files a second that the limit aims at if the round trip is
	// long. Two cores cannot copy that many, so the limit does not slow down fast machines.
	// smallTrips is the largest number of round trips that copying a small file takes.
	smallRate  = 8000
	smallTrips = 3

	// othersOpen is the number of files and directories that may be open in addition to small
	// files.
	othersOpen = 2 * listsAtOnce

	// fewAtOnce is the number of open files that every server is expected to allow. If a server
	// refuses to open a file although at most fewAtOnce are open, their number is not the reason.
	fewAtOnce = 8

	// maxOtherReasons is how many times a refusal may turn out to have another reason than the
	// number of open files. After that, refusals no longer lower the limit.
	maxOtherReasons = 4
)

// A smallLimit limits the number of small files that are copied at the same time. The limit depends
// on the round trip, and on how many files a server or this process can have open. If a server does
// not announce that number, smallLimit learns it when the server refuses to open a file.
type smallLimit struct {
	target *tree // the target of the copy

	mu      sync.Mutex
	changed sync.Cond
	trip    time.Duration // shortest round trip of both trees; 0 if none was measured; guarded by mu
	handles int           // how many small files may be open, as the servers announced; guarded by mu
	// most is how many small files may be open, apart from handles: first a constant, which is
	// smaller if files are written in place, and then what refusals have shown. Guarded by mu.
	most    int
	workers int // number of workers for small files; guarded by mu
	running int // number of small files that are being copied; guarded by mu
	peak    int // largest value of running since `most` was last lowered; guarded by mu
	lowered int // how many times a refusal lowered `most`; guarded by mu
	others  int // number of refusals whose reason was not the number of open files; guarded by mu
}

// init sets the limit for a target. With inPlace, it is never more than smallAtOnce, however long
// the round trip is: if a copy that writes in place fails, all files that were being copied stay
// incomplete under their own names.
func (l *smallLimit) init(target *tree, inPlace bool) {
	l.target = target
	l.handles, l.most = maxSmall, maxSmall
	if inPlace {
		l.most = smallAtOnce
	}
	l.changed.L = &l.mu
	l.measure(target)
}

// restart sets the number of workers to one, which the caller is about to start.
func (l *smallLimit) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = 1
}

// measure updates l with the round trip and the number of open files that a tree knows of its
// server. It keeps the shortest round trip so far, because a longer one may include time in which
// the server waited for a file. The caller holds mu, or no other goroutine uses l yet.
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

// limit returns the number of small files that may be copied at the same time. The caller holds mu.
func (l *smallLimit) limit() int {
	worth := max(int(l.trip*smallTrips*smallRate/time.Second), smallAtOnce)
	return min(worth, l.handles, l.most)
}

// startAnother reports whether to start another worker for small files, and counts it. A worker
// calls it when it gets a file of the tree `from`.
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

// An attempt is a call of open by smallLimit.try.
type attempt struct {
	counts  bool // the attempt is for a small file, so smallLimit.running counts it
	lowered int  // value of smallLimit.lowered when the attempt began
	before  int  // value of smallLimit.most before this attempt lowered it; 0 if it has not done so
}

// try calls the function open as soon as the limit allows. open opens a directory, or opens and
// copies a file; `small` says that this is a small file. If open returns a [tooManyError], try
// lowers the limit and calls open again.
func (l *smallLimit) try(small bool, open func() error) error {
	for a := (attempt{counts: small}); ; {
		l.begin(&a)
		err := open()
		if !l.end(&a, err) {
			return unmarked(err)
		}
	}
}

// begin waits until the limit allows an attempt.
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

// end records that an attempt returned err, and reports whether to repeat it. If so, the limit has
// been lowered, and begin waits until the limit allows the attempt. If a server refuses a file even
// though only a few are open, their number is not the reason. Then end returns false, and restores
// the limit that was valid before this attempt lowered it.
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
	case a.lowered != l.lowered: // the limit was lowered since the attempt began
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

// otherReason records that a refusal had another reason than the number of open files, and undoes
// the effect of the attempt on the limit. The caller holds mu.
func (l *smallLimit) otherReason(a *attempt) {
	if a.before == 0 {
		return
	}
	if l.others++; l.others == maxOtherReasons {
		a.before = min(a.before, smallAtOnce) // be careful, because no refusal lowers the limit any more
	}
	l.most = max(l.most, a.before)
	l.changed.Broadcast()
}

// A tooManyError wraps an error that may mean that too many files are open.
type tooManyError struct{ error }

func (e *tooManyError) Unwrap() error { return e.error }

// unmarked returns the error inside a [tooManyError]. It returns other errors unchanged.
func unmarked(err error) error {
	if e, ok := err.(*tooManyError); ok {
		return e.error
	}
	return err
}

// notOpened wraps err in a [tooManyError] if it may mean that too many files are open in tree t.
func notOpened(t *tree, err error) error {
	if err == nil {
		return nil
	}
	if d := t.can.Distance; d != nil && d.TooManyOpen(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return &tooManyError{err}
	}
	return err
}
