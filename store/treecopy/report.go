package treecopy

import (
	"context"
	"sync"
)

// A report counts what becomes of the entries, and tells the hooks.
type report struct {
	hooks *Hooks
	fatal func(error) bool
	ctx   context.Context
	stop  context.CancelCauseFunc

	mu   sync.Mutex
	sums Result  // mu
	errs []error // mu: the first MaxErrors
}

func (r *report) found(files, bytes int64) {
	r.mu.Lock()
	r.sums.Found.Files += files
	r.sums.Found.Bytes += bytes
	totals := r.sums.Found
	r.mu.Unlock()
	if r.hooks.Found != nil && files > 0 {
		r.hooks.Found(totals)
	}
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

func (r *report) progress(i *Item, n int64) {
	if r.hooks.Progress != nil && n != 0 {
		r.hooks.Progress(i, n)
	}
}

// failed ends an entry by an error.
func (r *report) failed(i *Item, err error) {
	r.ended(i, Outcome{What: Failed, Err: err})
}

// ended ends an entry. An error after the end of the copy's context is that end's,
// and not counted.
func (r *report) ended(i *Item, o Outcome) {
	if o.What == Failed && r.ctx.Err() == nil {
		e := &EntryError{From: i.From, To: i.To, Err: o.Err}
		r.add(e)
		if r.fatal != nil && r.fatal(o.Err) {
			r.stop(e)
		}
	}
	r.mu.Lock()
	switch o.What {
	case Copied:
		r.sums.Copied++
	case Made:
		r.sums.Made++
	case Same:
		r.sums.Same++
	case Skipped:
		r.sums.Skipped++
	}
	r.sums.Bytes += o.Bytes
	r.sums.Resumed += o.Resumed
	r.mu.Unlock()
	if r.hooks.Ended != nil {
		r.hooks.Ended(i, o)
	}
}

func (r *report) add(e error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums.Failed++
	if len(r.errs) < MaxErrors {
		r.errs = append(r.errs, e)
	}
}

func (r *report) result() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sums
}

// err returns an error if anything has failed.
func (r *report) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sums.Failed == 0 {
		return nil
	}
	return &IncompleteError{Failed: r.sums.Failed, Errors: r.errs}
}
