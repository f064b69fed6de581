package rate_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// A Bucket lets bytes through at its rate, whatever the size of the pieces, and a small burst at once.
func TestBucket(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	for _, n := range []int{1, 100, 1000, 100_000} {
		var b rate.Bucket
		b.Set(1000)
		now, total := start, 0
		for total < 1_000_000 {
			wait := b.Take(now, n)
			total += n
			now = now.Add(wait)
		}
		took, want := now.Sub(start), time.Duration(total)*time.Millisecond-rate.Burst
		if d := took - want; d.Abs() > time.Millisecond {
			t.Errorf("in pieces of %d, %d bytes took %v, want %v", n, total, took, want)
		}
		// After a long idle time, the burst is not larger.
		now = now.Add(time.Hour)
		if wait := b.Take(now, 1000); wait != time.Second-rate.Burst {
			t.Errorf("after a rest a second's bytes wait %v", wait)
		}
	}
	var none rate.Bucket
	if wait := none.Take(start, 1<<30); wait != 0 {
		t.Errorf("without a rate bytes wait %v", wait)
	}
}

// TakeWithin lets bytes through above the rate if they would otherwise wait longer than the bound.
// Later bytes do not wait longer because of them.
func TestTakeWithin(t *testing.T) {
	const most = time.Second
	var b rate.Bucket
	b.Set(1000)
	now := time.Unix(1_000_000, 0)
	for i, test := range []struct {
		n    int
		want time.Duration
	}{{100, 0}, {500, 500 * time.Millisecond}, {500, most}, {1, most}, {1 << 40, most}, {0, most}} {
		if wait := b.TakeWithin(now, test.n, most); wait != test.want {
			t.Errorf("%d: %d bytes wait %v, want %v", i, test.n, wait, test.want)
		}
	}
	if wait := b.TakeWithin(now.Add(most), 500, most); wait != 500*time.Millisecond {
		t.Errorf("after the bound 500 bytes wait %v", wait)
	}
	var none rate.Bucket
	if wait := none.TakeWithin(now, 1<<30, most); wait != 0 {
		t.Errorf("without a rate bytes wait %v", wait)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := rate.Sleep(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("slept %v, %v", time.Since(began), err)
		}
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		began = time.Now()
		if err := rate.Sleep(ctx, time.Hour); err != why || time.Since(began) != time.Minute {
			t.Errorf("slept %v, %v", time.Since(began), err)
		}
	})
}

func Example() {
	var b rate.Bucket
	b.Set(10 << 20) // bytes a second
	now := time.Now()
	fmt.Println(b.Take(now, 1<<20)) // the bytes of the first tenth of a second need not wait
	fmt.Println(b.Take(now, 10<<20))
	// Output:
	// 0s
	// 1s
}
