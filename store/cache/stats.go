package cache

import (
	"log/slog"
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

// logEvery is the time between two lines of one kind in the log.
const logEvery = 10 * time.Second

// troubles are the lines in the log of late.
type troubles struct {
	log   *slog.Logger
	times *times
	mu    sync.Mutex
	last  map[string]*trouble // mu: by message, of which the package has a few
}

// A trouble is a kind of line in the log.
type trouble struct {
	at    time.Time
	since int // lines that were left out
}

// trouble logs a warning, unless there was one with that message a moment ago.
func (l *troubles) trouble(message string, err error, args ...any) {
	if l.log == nil {
		return
	}
	now := l.times.now()
	l.mu.Lock()
	t := l.last[message]
	if t == nil {
		if l.last == nil {
			l.last = map[string]*trouble{}
		}
		t = &trouble{}
		l.last[message] = t
	}
	if now.Sub(t.at) < logEvery {
		t.since++
		l.mu.Unlock()
		return
	}
	if t.since > 0 {
		args = append(args, "repeated", t.since)
	}
	t.at, t.since = now, 0
	l.mu.Unlock()
	l.log.Warn(message, append([]any{"error", err}, args...)...)
}
