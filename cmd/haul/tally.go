package main

import (
	"log/slog"
	"sync"
	"time"
)

// tallyEvery is how often it is told of what many may do.
const tallyEvery = 10 * time.Second

// A tally tells of what any stranger may have happen, as often as he likes: of the
// first at once, and then of all together now and then, so that a flood does not fill
// the log.
type tally struct {
	log *lineQueue
	msg string

	mu     sync.Mutex
	counts map[string]*tallied // mu: not told yet, by cause, of which there are few
	timer  *time.Timer         // mu: set while there was one not long ago
}

// tallied is what there was for one cause.
type tallied struct {
	level slog.Level
	n     int64
	last  string      // who came last
	more  []slog.Attr // about the last
}

// add counts one more. A cause is one of a fixed few.
func (t *tally) add(level slog.Level, cause, from string, more ...slog.Attr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]*tallied{}
	}
	c := t.counts[cause]
	if c == nil {
		c = new(tallied)
		t.counts[cause] = c
	}
	c.level, c.last, c.more = level, from, more
	c.n++
	if t.timer == nil {
		t.timer = time.AfterFunc(tallyEvery, t.again)
		t.tell()
	}
}

// again tells of what has come since the last time, and waits for more, if there
// was any.
func (t *tally) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.counts) == 0 {
		t.timer = nil
		return
	}
	t.tell()
	t.timer.Reset(tallyEvery)
}

// tell says how many there were. The caller holds mu.
func (t *tally) tell() {
	for cause, c := range t.counts {
		attrs := append(make([]slog.Attr, 0, 8), slog.String("cause", cause), slog.Int64("connections", c.n), slog.String("last", c.last))
		t.log.say(c.level, t.msg, append(attrs, c.more...)...)
	}
	clear(t.counts)
}

// flush tells of the rest.
func (t *tally) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	t.tell()
}
