package cache

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// counters holds the counts of Stats.
type counters struct {
	hits, misses, bytesServed, bytesFetched         atomic.Uint64
	asks, fetches, fetchErrors, sourceErrors, stale atomic.Uint64
	corrupt, diskErrors, unstored, evictions        atomic.Uint64
}

// logEvery is the shortest time between two log lines of the same kind.
const logEvery = 10 * time.Second

// troubles logs warnings, and remembers them to limit their number.
type troubles struct {
	log   *slog.Logger
	times *times
	mu    sync.Mutex
	last  map[string]*trouble // by message; the package has only a few messages; guarded by mu
}

// A trouble says when a message was last logged.
type trouble struct {
	at    time.Time
	since int // number of lines omitted since then
}

// trouble logs a warning, unless one with the same message was logged less than logEvery ago.
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
