// Package rate limits the rate of bytes, for one transfer or for many that share a [Bucket].
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

// Burst is how long a Bucket that was idle lets everything through.
const Burst = 100 * time.Millisecond

// A Bucket limits the rate of bytes. The zero Bucket has no limit. Any goroutine may call its
// methods.
type Bucket struct {
	rate atomic.Int64 // bytes a second; 0 or less means no limit
	mu   sync.Mutex
	even time.Time // when all bytes that were let through are due at the rate; guarded by mu
}

// Set sets the rate, in bytes a second; 0 or less means no limit. Bytes that were already let
// through are not affected.
func (b *Bucket) Set(rate int64) { b.rate.Store(rate) }

// Rate returns the rate, in bytes a second; 0 or less means no limit.
func (b *Bucket) Rate() int64 { return b.rate.Load() }

// Take counts n bytes, and returns how long they have to wait.
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

// TakeWithin is like Take for bytes that must not wait longer than most. It may let bytes through
// above the rate; the excess does not delay later bytes.
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

// idle reports whether the Bucket is as good as new: all bytes that were let through were due at
// least a burst ago.
func (b *Bucket) idle(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.even.After(now.Add(-Burst))
}

// Sleep waits. If ctx ends first, it returns the cause.
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
