// Package rate limits the rate of bytes, for one transfer or for many that share a [Bucket]. Before
// it sends or reads bytes, a transfer waits for as long as its Bucket says:
//
//	if err := rate.Sleep(ctx, bucket.Take(time.Now(), len(p))); err != nil {
//		return err
//	}
package rate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Burst says how many bytes an idle Bucket lets through without a wait: as many as its rate allows in
// this time.
const Burst = 100 * time.Millisecond

// A Bucket limits the rate of bytes. The zero Bucket has no limit. Any goroutine may call its
// methods.
type Bucket struct {
	rate atomic.Int64 // bytes a second; 0 or less means no limit
	mu   sync.Mutex
	even time.Time // when the last byte that was let through would have been due at the rate; guarded by mu
}

// Set sets the rate, in bytes a second; 0 or less means no limit. Bytes that were already let
// through are not affected.
func (b *Bucket) Set(rate int64) { b.rate.Store(rate) }

// Rate returns the rate, in bytes a second; 0 or less means no limit.
func (b *Bucket) Rate() int64 { return b.rate.Load() }

// Take counts n bytes, and returns how long the caller must wait before it moves them.
func (b *Bucket) Take(now time.Time, n int) time.Duration {
	rate := b.rate.Load()
	if rate <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if earliest := now.Add(-Burst); b.even.Before(earliest) {
		b.even = earliest
	}
	b.even = b.even.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	return max(0, b.even.Sub(now))
}

// TakeWithin is like Take for bytes that must not wait longer than `most`. To achieve that, it may
// exceed the rate; the bytes above the rate do not delay later ones.
func (b *Bucket) TakeWithin(now time.Time, n int, most time.Duration) time.Duration {
	wait := b.Take(now, n)
	if wait <= most {
		return wait
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.even = now.Add(most)
	return most
}

// idle reports whether the Bucket can be replaced by a new one without an effect: all bytes that were
// let through were due at least Burst ago.
func (b *Bucket) idle(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.even.After(now.Add(-Burst))
}

// Sleep waits for d. If ctx is done first, it returns the cause. If d is not above 0, it returns nil
// at once.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
