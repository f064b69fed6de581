package linequeue

import (
	"cmp"
	"log/slog"
	"sync"
	"time"
)

// rateLimitEvery is the shortest time between two lines for one cause.
const rateLimitEvery = 10 * time.Second

// A RateLimited logs events that strangers can cause, such as refused connections, so that a flood
// of them does not fill the log. The first event of a cause is logged at once. After that, there is
// at most one line for that cause every 10 s, with the number of events.
type RateLimited struct {
	Log     *Log
	Message string
	Unit    string // attribute name for the number of events; "" means "connections"

	// Write, if set, is called instead of writing to Log. It gets a cause, the number of its
	// events, and the peer of the last event. It must not block. If it returns false, the events
	// stay counted for the next call.
	Write func(cause string, n int64, last string) bool

	mu     sync.Mutex
	counts map[string]*causeCount // the counts of each cause, of which there are only a few; guarded by mu
	timer  *time.Timer            // calls flushDue; nil while no line can become due; guarded by mu
}

// A causeCount counts the events of one cause.
type causeCount struct {
	level   slog.Level
	n       int64       // number of events not logged yet
	written time.Time   // time of the last line; zero if that was more than rateLimitEvery ago
	last    string      // the peer of the last event
	attrs   []slog.Attr // attributes of the last event
}

// Count counts an event, and logs it now or later. cause must be one of a few fixed texts, because
// the counts of all causes stay in memory. from is the peer, and more holds further attributes; a
// line shows the peer and the attributes of its last event.
func (t *RateLimited) Count(level slog.Level, cause, from string, more ...slog.Attr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]*causeCount{}
	}
	c := t.counts[cause]
	if c == nil {
		c = new(causeCount)
		t.counts[cause] = c
	}
	c.level, c.last, c.attrs = level, from, more
	c.n++
	if c.written.IsZero() {
		t.write(cause, c)
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(rateLimitEvery, t.flushDue)
	}
}

// flushDue writes the lines that are due, and sets the timer for the next one.
func (t *RateLimited) flushDue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := time.Duration(0)
	for cause, c := range t.counts {
		wait := time.Until(c.written.Add(rateLimitEvery))
		switch {
		case wait <= 0 && c.n == 0:
			c.written = time.Time{}
			continue
		case wait <= 0:
			t.write(cause, c)
			wait = rateLimitEvery
		}
		if next == 0 || wait < next {
			next = wait
		}
	}
	if t.timer = nil; next > 0 {
		t.timer = time.AfterFunc(next, t.flushDue)
	}
}

// write logs the number of events of a cause. The caller holds mu.
func (t *RateLimited) write(cause string, c *causeCount) {
	if t.Write != nil {
		if c.written = time.Now(); t.Write(cause, c.n, c.last) {
			c.n = 0
		}
		return
	}
	attrs := append(make([]slog.Attr, 0, 8), slog.String("cause", cause), slog.Int64(cmp.Or(t.Unit, "connections"), c.n), slog.String("last", c.last))
	t.Log.Say(c.level, t.Message, append(attrs, c.attrs...)...)
	c.n, c.written, c.attrs = 0, time.Now(), nil
}

// Flush logs all events that are not logged yet.
func (t *RateLimited) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	for cause, c := range t.counts {
		if c.n > 0 {
			t.write(cause, c)
		}
	}
}
