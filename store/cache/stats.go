package cache

import (
	"sync"
	"sync/atomic"
	"time"
)

// counters are those of Stats.
type counters struct {
	hits, misses, bytesServed, bytesFetched         atomic.Uint64
	asks, fetches, fetchErrors, sourceErrors, stale atomic.Uint64
	corrupt, diskErrors, unstored, evictions        atomic.Uint64
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	n := &c.count
	s := Stats{
		Hits: n.hits.Load(), Misses: n.misses.Load(), BytesServed: n.bytesServed.Load(), BytesFetched: n.bytesFetched.Load(),
		Asks: n.asks.Load(), Fetches: n.fetches.Load(), FetchErrors: n.fetchErrors.Load(), SourceErrors: n.sourceErrors.Load(), Stale: n.stale.Load(),
		Corrupt: n.corrupt.Load(), DiskErrors: n.diskErrors.Load(), Unstored: n.unstored.Load(), Evictions: n.evictions.Load(),
		Size: c.cfg.Size,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Held, s.Memory, s.Fetching, s.Writing = c.held, c.memory, c.running, c.writing
	s.Objects, s.Blocks = len(c.objects), c.blocks.Len()
	if last := c.blocks.Back(); last != nil {
		s.Oldest = max(0, c.now().Sub(last.Value.(*block).used))
	}
	return s
}

// logEvery is the time between two lines of one kind in the log.
const logEvery = 10 * time.Second

// troubles are the lines in the log of late.
type troubles struct {
	mu   sync.Mutex
	last map[string]*trouble // mu: by message, of which the package has a few
}

// A trouble is a kind of line in the log.
type trouble struct {
	at    time.Time
	since int // lines that were left out
}

// trouble logs a warning, unless there was one with that message a moment ago.
func (c *Cache) trouble(message string, err error, args ...any) {
	if c.cfg.Log == nil {
		return
	}
	now := c.now()
	c.log.mu.Lock()
	t := c.log.last[message]
	if t == nil {
		if c.log.last == nil {
			c.log.last = map[string]*trouble{}
		}
		t = &trouble{}
		c.log.last[message] = t
	}
	if now.Sub(t.at) < logEvery {
		t.since++
		c.log.mu.Unlock()
		return
	}
	if t.since > 0 {
		args = append(args, "repeated", t.since)
	}
	t.at, t.since = now, 0
	c.log.mu.Unlock()
	c.cfg.Log.Warn(message, append([]any{"error", err}, args...)...)
}
