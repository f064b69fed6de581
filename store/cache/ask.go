package cache

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	"github.com/haul-project/haul/store"
)

// staleWait is how long a caller waits for the source's answer if a cached answer can be used
// instead.
const staleWait = 2 * time.Second

var errSlow = fmt.Errorf("the source has not answered within %v", staleWait)

// An ask is a request to the source to open or describe a file. All callers that need its answer at
// the same time share it.
type ask struct {
	done chan struct{} // closed after the answer, or err, is stored in the fields below
	// object is the answer, if the file can be cached. The ask counts as a reader of the object
	// until the last waiting caller has left.
	object  *object
	file    *origin // the answer, if the file cannot be cached; only one of the waiting callers gets it
	info    fs.FileInfo
	err     error
	waiting int // how many callers wait; guarded by state.mu
	cancel  context.CancelFunc
}

// join joins the request at *at or, if *at is nil, starts a request, which calls the function run
// in a new goroutine. The caller holds mu, and must call leave later.
func (s *front) join(at **ask, run func(ctx context.Context, a *ask)) *ask {
	a := *at
	if a == nil {
		ctx, cancel := context.WithCancel(s.c.ctx)
		a = &ask{done: make(chan struct{}), cancel: cancel}
		*at = a
		s.c.start(func() {
			defer cancel()
			run(ctx, a)
		})
	}
	a.waiting++
	return a
}

// wait waits for the answer to a request. If a cached answer can be used instead, it waits at most
// staleWait.
func (s *front) wait(ctx context.Context, n *entry, a *ask) error {
	var late <-chan time.Time
	s.c.mu.Lock()
	if s.mayStale(n) {
		t := time.NewTimer(staleWait)
		defer t.Stop()
		late = t.C
	}
	s.c.mu.Unlock()
	defer store.BeginWait(ctx)()
	select {
	case <-a.done:
		return a.err
	case <-late:
		return errSlow
	case <-s.c.ctx.Done():
		return fs.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave ends one caller's wait for a request. When the last caller leaves, the request is cancelled
// and its answer is discarded.
func (s *front) leave(at **ask, a *ask) {
	c := s.c
	c.mu.Lock()
	a.waiting--
	if a.waiting > 0 {
		c.mu.Unlock()
		return
	}
	if *at == a {
		*at = nil // so that no other caller can join the cancelled request
	}
	o, src := a.object, a.file
	a.file = nil
	c.mu.Unlock()
	a.cancel()
	if src != nil {
		src.close()
	}
	if o != nil {
		o.release()
	}
}

// finish stores the answer to a request, or discards it if no caller waits any more. The caller
// holds mu.
func (c *state) finish(a *ask, o *object, file *origin, err error) {
	a.err = err
	if a.waiting > 0 {
		a.object, a.file = o, file
	} else if o != nil {
		c.tasks.Go(o.release)
	} else if file != nil {
		c.tasks.Go(file.close)
	}
	close(a.done)
}
