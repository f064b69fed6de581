package tftp

import (
	"sync/atomic"
	"time"
)

const (
	// maxInbox is how many requests may wait for a loop. Further requests are dropped, as if a
	// socket buffer were full; clients repeat them.
	maxInbox = 1024

	// A loop is busy if it has spent fullShare percent of the latest shareSpan in its turns, or if
	// fullInbox requests wait for it.
	fullShare = 80
	shareSpan = 10 * time.Millisecond
	fullInbox = maxInbox / 4

	// A loop that has not taken a turn for shareHolds is idle.
	shareHolds = 10 * shareSpan

	// A loop's measured time does not include transfers that have just begun. So during newFor,
	// every newPerPercent new lock-step transfers count as one percent: a boot ROM takes a thousand
	// blocks a second, and a block costs 2.5 us.
	newPerPercent = 4
	newFor        = 2 * shareSpan
)

// A load measures how busy a loop is, to choose the loop of a new transfer.
type load struct {
	began  time.Time // when the server began
	spread bool      // testHooks.spread

	queued    atomic.Int32 // requests in the inbox
	occupied  occupancy
	routed    int       // number of peers that have a route to the shard; routes.mu
	windowed  int       // number of these peers whose transfer has a window; routes.mu
	newcomers newcomers // routes.mu
}

// An occupancy measures the part of its time that a loop spends in turns.
type occupancy struct {
	since time.Time     // when the present span began; loop only
	spent time.Duration // time in turns since then; loop only

	share atomic.Int64 // percentage of the latest complete span that was spent in turns
	until atomic.Int64 // end of that span, in nanoseconds since the server began
}

// turn counts a turn that lasted from began to ended. The field until counts from base.
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

// full reports whether the loop has no time left for another transfer. The caller holds routes.mu.
func (l *load) full(now time.Time) bool {
	return l.spread || l.percentBusy(now)+int64(l.newcomers.count(now)/newPerPercent) >= fullShare
}

// newcomers counts the transfers that a shard got recently. The mutex of the routes guards it.
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

// percentBusy returns how much of its time the loop has recently spent in turns, and 100 if many
// requests wait for it. Any goroutine may call it.
func (l *load) percentBusy(now time.Time) int64 {
	if int(l.queued.Load()) >= fullInbox {
		return 100
	}
	if idle := now.Sub(l.began) - time.Duration(l.occupied.until.Load()); idle >= shareHolds {
		return 0
	}
	return l.occupied.share.Load()
}
