package linequeue

import (
	"context"
	"log/slog"
	"time"
)

// A Log queues lines for a logger. Its methods do not wait.
type Log struct {
	*Queue[slog.Record]
	Logger *slog.Logger // writes the lines; its methods may wait
}

// NewLog returns a queue for the lines of log, and starts the goroutine that writes them. The caller
// closes the queue.
func NewLog(log *slog.Logger) *Log {
	q := New(
		// An error could not be logged anywhere.
		func(r slog.Record) { _ = log.Handler().Handle(context.Background(), r) },
		func(lost int64) { log.Warn("the log was too slow", "lines lost", lost) })
	go q.Run()
	return &Log{q, log}
}

// Enabled reports whether lines of a level are logged.
func (l *Log) Enabled(level slog.Level) bool { return l.Logger.Enabled(context.Background(), level) }

// Say queues a line, if lines of its level are logged.
func (l *Log) Say(level slog.Level, msg string, attrs ...slog.Attr) {
	if !l.Enabled(level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, msg, 0)
	r.AddAttrs(attrs...)
	l.Add(r)
}
