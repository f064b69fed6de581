package sftp

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// rateBurst is for how long a throttle lets nothing wait after it was idle.
	rateBurst = 100 * time.Millisecond

	// minThrottledRead is the least that a READ is cut to so that little of the
	// rate goes at once, in bytes.
	minThrottledRead = 4 << 10
)

// A bucket lets bytes through at a rate. The zero bucket lets all through.
type bucket struct {
	rate atomic.Int64 // bytes a second; 0 means no limit
	mu   sync.Mutex
	even time.Time // mu: when all that was let through has had its time
}

// take counts n bytes, and returns how long they have to wait.
func (b *bucket) take(now time.Time, n int) time.Duration {
	rate := b.rate.Load()
	if rate <= 0 {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if earliest := now.Add(-rateBurst); b.even.Before(earliest) {
		b.even = earliest
	}
	b.even = b.even.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	return max(0, b.even.Sub(now))
}

// A throttle is a bucket for each way.
type throttle struct{ sent, received bucket }

func (t *throttle) set(rate int64) {
	t.sent.rate.Store(rate)
	t.received.rate.Store(rate)
}

// An accountThrottle is what the connections of one account share.
type accountThrottle struct {
	throttle
	conns int // mu of accounts
}

// accounts are those that have connections.
type accounts struct {
	mu     sync.Mutex
	byUser map[string]*accountThrottle // mu
}

// enter counts a connection. The rate that was given last holds for all of them.
func (a *accounts) enter(user string, rate int64) *accountThrottle {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.byUser[user]
	if t == nil {
		if a.byUser == nil {
			a.byUser = map[string]*accountThrottle{}
		}
		t = &accountThrottle{}
		a.byUser[user] = t
	}
	t.conns++
	t.set(rate)
	return t
}

func (a *accounts) leave(user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.byUser[user]; t != nil {
		if t.conns--; t.conns == 0 {
			delete(a.byUser, user)
		}
	}
}

// maxRead is what a READ may return at most, in bytes: less where the rate is
// low, so that the client sees it flow.
func (c *serverConn) maxRead() int64 {
	least := int64(0)
	for _, t := range [...]*throttle{&c.server.rate, &c.throttle.throttle} {
		if r := t.sent.rate.Load(); r > 0 && (least == 0 || r < least) {
			least = r
		}
	}
	if least == 0 {
		return maxData
	}
	return min(max(least/8, minThrottledRead), maxData)
}

// sentWait counts bytes of files that go to the client, and returns how long
// they have to wait.
func (c *serverConn) sentWait(n int) time.Duration {
	now := time.Now()
	return max(c.server.rate.sent.take(now, n), c.throttle.sent.take(now, n))
}

// receivedWait is the same for those that have come.
func (c *serverConn) receivedWait(n int) time.Duration {
	now := time.Now()
	return max(c.server.rate.received.take(now, n), c.throttle.received.take(now, n))
}

// sleepFor waits, unless ctx ends before.
func sleepFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
