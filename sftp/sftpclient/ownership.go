package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/store"
)

// ownershipLooks are when an upload has looked whether its file is its own.
type ownershipLooks struct {
	mu    sync.Mutex
	last  time.Time // mu: when the last look began that has ended well
	under bool      // mu: one is under way
}

// stillOurs returns [store.ErrBusy] if another upload has taken the file over, and
// nil if the server does not answer.
func (k *resumableUpload) stillOurs(ctx context.Context) error {
	began := time.Now()
	_, err := k.c.Lstat(ctx, k.temp)
	if errors.Is(err, fs.ErrNotExist) {
		k.lost.Store(true)
		return store.ErrBusy
	}
	if err == nil {
		k.looked.mu.Lock()
		k.looked.last = began
		k.looked.mu.Unlock()
	}
	return nil
}

// busyIfGone says of an error that it came of another upload's having taken the
// file over, so that it could not be opened again on another lane.
func (k *resumableUpload) busyIfGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) && k.stillOurs(k.ctx) != nil {
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	}
	return err
}

// checkOwn is called before something is written. From time to time it looks
// whether the file is still ours, and waits for that only if it has not been
// known for long: then whoever has it may have published it.
func (k *resumableUpload) checkOwn() error {
	if k.lost.Load() {
		return store.ErrBusy
	}
	now := time.Now()
	k.looked.mu.Lock()
	age := now.Sub(k.looked.last)
	start := age >= ownEvery && !k.looked.under
	if start {
		k.looked.under = true
	}
	k.looked.mu.Unlock()
	look := func() error {
		err := k.stillOurs(k.ctx)
		k.looked.mu.Lock()
		k.looked.under = false
		k.looked.mu.Unlock()
		return err
	}
	switch {
	case start && age < 2*ownEvery:
		k.pending.Go(func() { _ = look() })
	case start:
		return look()
	case age >= 2*ownEvery:
		return k.stillOurs(k.ctx)
	}
	return nil
}

// An ownReader reads what is sent, as long as the file it goes to is ours.
type ownReader struct {
	io.ReaderAt
	k *resumableUpload
}

// ReadAt reads, and looks then: the read may have taken long.
func (r ownReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, off)
	if e := r.k.checkOwn(); e != nil {
		return 0, onServer(e) // not the reader's
	}
	return n, err
}

// finishWrites waits until the server has all that was written, and nobody else
// writes to the file, and sees to it that there is no more and no less of it.
func (k *resumableUpload) finishWrites() error {
	if k.lost.Load() {
		return store.ErrBusy
	}
	if err := k.f.awaitWrites(k.ctx); err != nil {
		return k.busyIfGone(err)
	}
	if !k.exclusiveFrom.IsZero() {
		if err := rate.Sleep(k.ctx, time.Until(k.exclusiveFrom)); err != nil {
			return err
		}
	}
	fi, err := k.f.Stat()
	if err != nil {
		return err
	}
	k.mu.Lock()
	high := k.high
	k.mu.Unlock()
	switch {
	case fi.Size() < high:
		return fmt.Errorf("%w: of %d bytes that were written, the server has %d", store.ErrBusy, high, fi.Size())
	case fi.Size() > high: // what was left had more
		if err := k.stillOurs(k.ctx); err != nil {
			return err
		}
		return k.f.Truncate(high)
	}
	return nil
}

// confirmPublished returns nil if it was this upload that gave a hidden file its name,
// which is gone, and else [store.ErrBusy]. An upload that takes a file over
// leaves a record of its own before.
func (k *resumableUpload) confirmPublished() error {
	k.marking.Lock()
	defer k.marking.Unlock()
	if !k.lostOwnership && k.recordIsOurs(k.ctx) {
		return nil
	}
	k.lost.Store(true)
	return store.ErrBusy
}
