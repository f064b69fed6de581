package tftp

import (
	"sync/atomic"
	"time"
)

const (
	// maxInbox is how many requests may wait for a loop. Further requests are dropped, as a full
	// socket buffer would drop them; clients repeat them.
	maxInbox = 1024

	// A loop is busy if it spent at least fullShare percent of the last shareSpan in its turns, or
	// if at least fullInbox requests wait for it.
	fullShare = 80
	shareSpan = 10 * time.Millisecond
	fullInbox = maxInbox / 4

	// A loop whose last turn was shareHolds ago or more is idle.
	shareHolds = 10 * shareSpan

	// The measured share does not yet include transfers that have just begun. So for the time
	// newFor, every newPerPercent new lock-step transfers count as one percent: a boot ROM reads a
	// thousand blocks a second, and a block costs 2.5 us.
	newPerPercent = 4
	newFor        = 2 * shareSpan
)

// A load measures how busy a loop is. The server uses it to choose the loop for a new transfer.
type load struct {
	began  time.Time // the server's start; occupied.until counts from this time
	spread bool      // see testHooks

	queued    atomic.Int32 // number of requests in the inbox
	occupied  occupancy
	routed    int       // number of peers that have a route to the shard. Guarded by routes.mu
	windowed  int       // number of these peers whose transfer has a window. Guarded by routes.mu
	newcomers newcomers // guarded by routes.mu
}

// An occupancy measures what share of its time a loop spends in turns.
type occupancy struct {
	since time.Time     // start of the current span; only the loop uses it
	spent time.Duration // time spent in turns in the current span; only the loop uses it

	share atomic.Int64 // percentage of the last complete span that was spent in turns
	until atomic.Int64 // the end of the last complete span, in nanoseconds since the server's start
}

// turn records a turn that lasted from began to ended. base is the server's start.
func (o *occupancy) turn(base, began, ended time.Time) {
	o.spent += ended.Sub(began)
	span := ended.Sub(o.since)
	if span < shareSpan {
		return
	}
	o.share.Store(int64(100 * o.spent / span))
	o.until.Store(int64(ended.Sub(base)))
	o.since, o.spent = ended, 0
}

// full reports whether the loop has no time for another transfer. The caller holds routes.mu.
func (l *load) full(now time.Time) bool {
	return l.spread || l.percentBusy(now)+int64(l.newcomers.count(now)/newPerPercent) >= fullShare
}

// newcomers counts the transfers that were recently assigned to a shard. routes.mu guards it.
type newcomers struct {
	since time.Time
	n     int
}

func (c *newcomers) add(now time.Time) {
	if c.n = c.count(now); c.n == 0 {
		c.since = now
	}
	c.n++
}

func (c *newcomers) count(now time.Time) int {
	if age := now.Sub(c.since); age < 0 || age >= newFor {
		return 0
	}
	return c.n
}

// percentBusy returns what percentage of its time the loop recently spent in turns, or 100 if
// fullInbox requests wait for it. Any goroutine may call it.
func (l *load) percentBusy(now time.Time) int64 {
	if int(l.queued.Load()) >= fullInbox {
		return 100
	}
	if idle := now.Sub(l.began) - time.Duration(l.occupied.until.Load()); idle >= shareHolds {
		return 0
	}
	return l.occupied.share.Load()
}
