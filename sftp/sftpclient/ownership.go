package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	// ownEvery is the interval at which an upload checks whether another upload has taken its file
	// over. takeoverWait is how long the other upload waits before it publishes the file, so that
	// the first upload has noticed the takeover by then.
	ownEvery     = time.Second
	takeoverWait = 3 * ownEvery
)

// An ownership checks whether the temporary file of an upload still belongs to it.
type ownership struct {
	c    *Client
	ctx  context.Context
	temp string
	lost atomic.Bool // another upload has taken the file over

	mu      sync.Mutex
	last    time.Time      // start of the last successful check; guarded by mu
	under   bool           // recheck has started a check that is still running; guarded by mu
	pending sync.WaitGroup // waits for the goroutine of the running check
}

// check asks the server whether the temporary file still has its name. It returns [store.ErrBusy]
// if another upload has taken the file over, and nil if the server does not answer.
func (o *ownership) check(ctx context.Context) error {
	began := time.Now()
	_, err := o.c.Lstat(ctx, o.temp)
	if errors.Is(err, fs.ErrNotExist) {
		o.lost.Store(true)
		return store.ErrBusy
	}
	if err == nil {
		o.mu.Lock()
		o.last = began
		o.mu.Unlock()
	}
	return nil
}

// busyIfGone wraps err in store.ErrBusy if the file could not be opened in another session because
// another upload has taken it over. It returns other errors unchanged.
func (o *ownership) busyIfGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) && o.check(o.ctx) != nil {
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return err
}

// recheck is called before a write. Once in ownEvery it checks whether the file still belongs to
// this upload. It waits for the answer only if the last check was long ago: another upload may have
// published the file since.
func (o *ownership) recheck() error {
	if o.lost.Load() {
		return store.ErrBusy
	}
	now := time.Now()
	o.mu.Lock()
	age := now.Sub(o.last)
	start := age >= ownEvery && !o.under
	if start {
		o.under = true
	}
	o.mu.Unlock()
	look := func() error {
		err := o.check(o.ctx)
		o.mu.Lock()
		o.under = false
		o.mu.Unlock()
		return err
	}
	switch {
	case start && age < 2*ownEvery:
		o.pending.Go(func() { _ = look() })
	case start:
		return look()
	case age >= 2*ownEvery:
		return o.check(o.ctx)
	}
	return nil
}

// An ownReader reads the source of an upload, as long as the temporary file belongs to that upload.
// After that, its reads fail.
type ownReader struct {
	io.ReaderAt
	o *ownership
}

// ReadAt reads, and then checks the ownership, because the read may have taken long.
func (r ownReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	if e := r.o.recheck(); e != nil {
		return 0, onServer(e) // the error does not come from the reader
	}
	return n, err
}
