package treecopy

import (
	"context"
	"math"
	"sync"
)

// A report counts the outcomes of the entries, and calls the hooks.
type report struct {
	hooks *Hooks
	fatal func(error) bool
	ctx   context.Context
	stop  context.CancelCauseFunc

	mu   sync.Mutex
	sums Result  // counts of the outcomes so far; guarded by mu
	done int64   // how many of the files counted in sums.Found are done; guarded by mu
	errs []error // the first errors of entries, up to maxErrors; guarded by mu
}

func (r *report) found(files, bytes int64) {
	r.mu.Lock()
	r.sums.Found.Files += files
	r.sums.Found.Bytes = addSizes(r.sums.Found.Bytes, bytes)
	totals := r.sums.Found
	r.mu.Unlock()
	if r.hooks.Found != nil && files > 0 {
		r.hooks.Found(totals)
	}
}

// addSizes adds two sizes from listings, which may be any number. If the sum is too large, it
// returns math.MaxInt64.
func addSizes(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func (r *report) foundAll() {
	if r.ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	r.sums.Found.All = true
	totals := r.sums.Found
	r.mu.Unlock()
	if r.hooks.Found != nil {
		r.hooks.Found(totals)
	}
}

func (r *report) started(i *Item) {
	if r.hooks.Started != nil {
		r.hooks.Started(i)
	}
}

func (r *report) fromStart(i *Item, why error) {
	if r.hooks.FromStart != nil {
		r.hooks.FromStart(i, why)
	}
}

func (r *report) progress(i *Item, n int64) {
	if r.hooks.Progress != nil && n != 0 {
		r.hooks.Progress(i, n)
	}
}

// failed reports that an entry ended with an error.
func (r *report) failed(i *Item, err error) {
	r.ended(i, Outcome{What: Failed, Err: err})
}

// fileEnded is like ended, for a file that is included in the count of found files.
func (r *report) fileEnded(i *Item, o Outcome) {
	if r.ended(i, o) {
		r.mu.Lock()
		r.done++
		r.mu.Unlock()
	}
}

// ended counts and reports the outcome of an entry. It returns false if the outcome does not count:
// an error that occurs after the copy's context has ended is only a consequence of that.
func (r *report) ended(i *Item, o Outcome) (counted bool) {
	r.mu.Lock()
	counted = true
	refused := false
	switch o.What {
	case Failed:
		if counted = r.ctx.Err() == nil; !counted {
			o.What = Unfinished
			break
		}
		e := &EntryError{From: i.shown(), To: i.To, Err: o.Err}
		if i.Extra {
			e.From = ""
		}
		r.sums.Failed++
		if r.fatal != nil && r.fatal(o.Err) {
			r.stop(e) // [report.err] will get the error from the context
			break
		}
		refused = true
		if len(r.errs) < maxErrors {
			r.errs = append(r.errs, e)
		}
	case Copied:
		r.sums.Copied++
	case Made:
		r.sums.Made++
	case Same:
		r.sums.Same++
	case Skipped:
		r.sums.Skipped++
	case Existing:
		r.sums.Existing++
	case Moved:
		r.sums.Moved++
	case Deleted:
		r.sums.Deleted++
	}
	if !refused {
		r.sums.Bytes += o.Bytes
		r.sums.Resumed += o.Resumed
	}
	r.mu.Unlock()
	if r.hooks.Ended != nil {
		r.hooks.Ended(i, o)
	}
	return counted
}

// excluded counts an entry that Options.Filter excludes.
func (r *report) excluded() {
	r.mu.Lock()
	r.sums.Excluded++
	r.mu.Unlock()
}

// undeleted sets the number of entries that should have been deleted, but were not, because
// something failed.
func (r *report) undeleted(n int64) {
	r.mu.Lock()
	r.sums.Undeleted = n
	r.mu.Unlock()
}

// kept counts a directory whose permissions and times could not be changed.
func (r *report) kept() {
	r.mu.Lock()
	r.sums.Kept++
	r.mu.Unlock()
}

func (r *report) result() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sums
	s.Left = s.Found.Files - r.done
	return s
}

// err returns an error if any entry has failed, or if `end` is not nil. `end` is the reason why the
// copy ended early. If both conditions hold, the error wraps the errors of entries and `end`.
func (r *report) err(end error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := r.errs
	if end != nil {
		errs = append([]error{end}, errs...)
	}
	switch {
	case end == nil && r.sums.Failed == 0:
		return nil
	case end != nil && len(errs) == 1:
		return end
	}
	return &IncompleteError{Failed: r.sums.Failed, Errors: errs}
}
