package cache

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// counters holds the counters of Stats.
type counters struct {
	hits, misses, bytesServed, bytesFetched         atomic.Uint64
	asks, fetches, fetchErrors, sourceErrors, stale atomic.Uint64
	corrupt, diskErrors, unstored, evictions        atomic.Uint64
}

// logEvery is the time between two lines of one kind in the log.
const logEvery = 10 * time.Second

// troubles records recent log lines, to limit their number.
type troubles struct {
	log   *slog.Logger
	times *times
	mu    sync.Mutex
	last  map[string]*trouble // mu: by message; the package has only a few messages
}

// A trouble is the state of one kind of log line.
type trouble struct {
	at    time.Time
	since int // number of lines omitted since
}

// trouble logs a warning, unless one with the same message was logged a moment ago.
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
