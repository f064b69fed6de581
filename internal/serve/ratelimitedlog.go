package serve

import (
	"log/slog"
	"sync"
	"time"
)

// tallyEvery is how often a tally writes a line for a cause.
const tallyEvery = 10 * time.Second

// A tally logs events that strangers can cause as often as they like: the first of each
// cause at once, and then all together now and then, so that a flood does not fill the
// log.
type tally struct {
	log *lineQueue
	msg string

	mu     sync.Mutex
	counts map[string]*tallied // mu: by cause, of which there are few
	timer  *time.Timer         // mu: set while there was one not long ago
}

// tallied is what there was for one cause.
type tallied struct {
	level slog.Level
	n     int64       // not told yet
	told  time.Time   // when there was a line; zero if that is long ago
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
	if c.told.IsZero() {
		t.tell(cause, c)
	}
	if t.timer == nil {
		t.timer = time.AfterFunc(tallyEvery, t.again)
	}
}

// again tells of what has come since the last time for each cause for which a line is
// due, and waits for more, if there was any.
func (t *tally) again() {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := time.Duration(0)
	for cause, c := range t.counts {
		wait := time.Until(c.told.Add(tallyEvery))
		switch {
		case wait <= 0 && c.n == 0:
			c.told = time.Time{}
			continue
		case wait <= 0:
			t.tell(cause, c)
			wait = tallyEvery
		}
		if next == 0 || wait < next {
			next = wait
		}
	}
	if t.timer = nil; next > 0 {
		t.timer = time.AfterFunc(next, t.again)
	}
}

// tell says how many there were for a cause. The caller holds mu.
func (t *tally) tell(cause string, c *tallied) {
	attrs := append(make([]slog.Attr, 0, 8), slog.String("cause", cause), slog.Int64("connections", c.n), slog.String("last", c.last))
	t.log.say(c.level, t.msg, append(attrs, c.more...)...)
	c.n, c.told, c.more = 0, time.Now(), nil
}

// flush tells of the rest.
func (t *tally) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
	for cause, c := range t.counts {
		if c.n > 0 {
			t.tell(cause, c)
		}
	}
}
