package serve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// maxQueued is how many lines may wait for the log. More are dropped and counted: a
	// log that nobody reads must not stop the server.
	maxQueued = 4096

	// queueGrace is how long a server that ends waits for its log.
	queueGrace = time.Second
)

// A lineQueue writes lines of a log on a goroutine of its own.
type lineQueue struct {
	log   *slog.Logger
	lines chan slog.Record
	lost  atomic.Int64
	end   chan struct{} // closed when no more lines are to come
	done  chan struct{} // closed when they are written
}

func newLineQueue(log *slog.Logger) *lineQueue {
	q := &lineQueue{log: log, lines: make(chan slog.Record, maxQueued), end: make(chan struct{}), done: make(chan struct{})}
	go q.run()
	return q
}

// say queues a line. It never waits.
func (q *lineQueue) say(level slog.Level, msg string, attrs ...slog.Attr) {
	if !q.log.Enabled(context.Background(), level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, msg, 0)
	r.AddAttrs(attrs...)
	select {
	case q.lines <- r:
	default:
		q.lost.Add(1)
	}
}

func (q *lineQueue) run() {
	defer close(q.done)
	reported := int64(0)
	write := func(r slog.Record) {
		_ = q.log.Handler().Handle(context.Background(), r) // a log that fails cannot be reported
		if n := q.lost.Load(); n > reported {
			q.log.Warn("the log was too slow", "lines lost", n-reported)
			reported = n
		}
	}
	for {
		select {
		case r := <-q.lines:
			write(r)
			continue
		default:
		}
		select {
		case r := <-q.lines:
			write(r)
		case <-q.end:
			for len(q.lines) > 0 {
				write(<-q.lines)
			}
			return
		}
	}
}

// close waits until the queued lines are written, but no longer than queueGrace. Later
// lines are lost.
func (q *lineQueue) close() {
	close(q.end)
	select {
	case <-q.done:
	case <-time.After(queueGrace):
	}
}
