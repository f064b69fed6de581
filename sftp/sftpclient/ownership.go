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
	// ownEvery is how often an upload checks whether another one has taken its file over.
	// takeoverWait is how long the other one waits before it gives the file its name, so
	// that the first has checked by then.
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
	last    time.Time      // mu: when the last successful check began
	under   bool           // mu: a check is under way
	pending sync.WaitGroup // for that
}

// check returns [store.ErrBusy] if another upload has taken the file over, and
// nil if the server does not answer.
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

// busyIfGone makes store.ErrBusy of an error that came because another upload has taken the file
// over, so that it could not be opened again in another session.
func (o *ownership) busyIfGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) && o.check(o.ctx) != nil {
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return err
}

// recheck is called before a write. From time to time it checks whether the file still belongs to
// this upload. It waits for the answer only if the last check was long ago: another upload may
// have published the file since.
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

// An ownReader reads as long as the file that the bytes go to belongs to this upload.
type ownReader struct {
	io.ReaderAt
	o *ownership
}

// ReadAt reads, and checks afterwards, as the read may have taken long.
func (r ownReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	if e := r.o.recheck(); e != nil {
		return 0, onServer(e) // not the reader's
	}
	return n, err
}
