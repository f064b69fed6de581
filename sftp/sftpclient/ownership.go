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
	// ownEvery is how long an upload continues without checking whether another one
	// has taken its file over, and takeoverWait how long the other waits before it
	// gives the file its name, so that the first has checked by then.
	ownEvery     = time.Second
	takeoverWait = 3 * ownEvery
)

// An ownership finds out whether the hidden file of an upload is still its own.
type ownership struct {
	c    *Client
	ctx  context.Context
	temp string
	lost atomic.Bool // another upload has taken the file over

	mu      sync.Mutex
	last    time.Time      // mu: when the last look began that has ended well
	under   bool           // mu: one is under way
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

// busyIfGone says of an error that it came of another upload's having taken the
// file over, so that it could not be opened again on another lane.
func (o *ownership) busyIfGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) && o.check(o.ctx) != nil {
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return err
}

// recheck is called before something is written. From time to time it looks
// whether the file is still ours, and waits for that only if it has not been
// known for long: then the other upload may have published it.
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

// An ownReader reads what is sent, as long as the file it goes to is ours.
type ownReader struct {
	io.ReaderAt
	o *ownership
}

// ReadAt reads, and looks then: the read may have taken long.
func (r ownReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	if e := r.o.recheck(); e != nil {
		return 0, onServer(e) // not the reader's
	}
	return n, err
}
