package sftp

import (
	"sync"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// minThrottledRead is the least that a READ is cut to so that little of the rate
// goes at once, in bytes.
const minThrottledRead = 4 << 10

// A throttle is a bucket for each way.
type throttle struct{ sent, received rate.Bucket }

func (t *throttle) set(bytes int64) {
	t.sent.Set(bytes)
	t.received.Set(bytes)
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
func (a *accounts) enter(user string, bytes int64) *accountThrottle {
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
	t.set(bytes)
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
		if r := t.sent.Rate(); r > 0 && (least == 0 || r < least) {
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
	return max(c.server.rate.sent.Take(now, n), c.throttle.sent.Take(now, n))
}

// receivedWait is the same for those that have come.
func (c *serverConn) receivedWait(n int) time.Duration {
	now := time.Now()
	return max(c.server.rate.received.Take(now, n), c.throttle.received.Take(now, n))
}
