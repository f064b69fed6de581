package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/linequeue"
)

// log returns the log, in the format of the configuration.
func (cfg *Config) log(out io.Writer) *slog.Logger {
	out = console.NewPlainWriter(out)
	o := &slog.HandlerOptions{Level: slog.LevelInfo}
	if cfg.Quiet {
		o.Level = slog.LevelWarn
	}
	if cfg.LogFormat == "json" {
		o.ReplaceAttr = forPrograms
		return slog.New(slog.NewJSONHandler(out, o))
	}
	o.ReplaceAttr = forPeople
	return slog.New(slog.NewTextHandler(out, o))
}

// forPrograms writes durations in seconds. Text that is not UTF-8, as JSON has it, is
// escaped, under a key that says so: "file_escaped" for "file".
func forPrograms(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindDuration:
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	case slog.KindString:
		if s := a.Value.String(); !utf8.ValidString(s) {
			return slog.String(a.Key+"_escaped", console.Visible(s))
		}
	}
	return a
}

// forPeople writes rates with a unit.
func forPeople(_ []string, a slog.Attr) slog.Attr {
	if a.Key == "rate" && a.Value.Kind() == slog.KindInt64 {
		a.Value = slog.StringValue(console.FormatBytes(a.Value.Int64()) + "/s")
	}
	return a
}

// say prints a message outside the log. With --log-format json it is a line of JSON, too.
func (cfg *Config) say(out io.Writer, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); cfg.LogFormat == "json" {
		slog.New(slog.NewJSONHandler(out, nil)).Info(text)
	} else {
		fmt.Fprintf(out, "haul: %s\n", console.Visible(text))
	}
}

// A lineQueue queues the lines of a log, without waiting.
type lineQueue struct {
	*linequeue.Queue[slog.Record]
	log *slog.Logger
}

func newLineQueue(log *slog.Logger) *lineQueue {
	q := linequeue.New(
		func(r slog.Record) { _ = log.Handler().Handle(context.Background(), r) }, // a log that fails cannot be reported
		func(lost int64) { log.Warn("the log was too slow", "lines lost", lost) })
	go q.Run()
	return &lineQueue{q, log}
}

// say queues a line.
func (q *lineQueue) say(level slog.Level, msg string, attrs ...slog.Attr) {
	if !q.log.Enabled(context.Background(), level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, msg, 0)
	r.AddAttrs(attrs...)
	q.Add(r)
}
