// Package events writes the steps of a command as lines of JSON, one object for each event.
// docs/json.md describes the events. A nil [Log] writes nothing.
package events

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// Version is the version of the format. It is incremented when an event or a field changes its
// meaning or is removed, but not when one is added.
const Version = 1

const (
	// maxQueue bounds the lines that wait for the reader. When the queue is full, the code that
	// emits events waits.
	maxQueue = 256

	// maxBatch bounds the bytes of one write, without its last line.
	maxBatch = 64 << 10

	// grace is how long an interrupted command waits for its reader.
	grace = time.Second

	// Every is the shortest time between two progress events.
	Every = 500 * time.Millisecond
)

// A Config describes the command that a log is for.
type Config struct {
	Out     io.Writer
	Command string
	Sources []string
	To      string // "" if the command has no target
	DryRun  bool
	Quiet   bool // write only start, failed, error and end events

	// Classify returns the exit code of an error, and a word for it.
	Classify func(error) (code int, cause string)
}

// A Log writes events. A goroutine writes the lines, so that a slow reader delays only callers
// that find the queue full, and does not delay running transfers.
type Log struct {
	Config
	ctx   context.Context
	began time.Time
	lines chan []byte   // nil ends the goroutine
	done  chan struct{} // closed when the goroutine has ended
	late  chan struct{} // closed when grace has passed after the end of ctx
	lost  atomic.Int64
	stop  func() bool // stops waiting for the end of ctx
	err   error       // error of the goroutine; valid once done is closed

	mu   sync.Mutex
	sums counts // guarded by mu
}

// Begin starts a log, and writes the first event. ctx is the context of the command.
func Begin(ctx context.Context, cfg Config) *Log {
	l := &Log{Config: cfg, ctx: ctx, began: time.Now(), lines: make(chan []byte, maxQueue), done: make(chan struct{}), late: make(chan struct{})}
	l.stop = context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(l.late) }) })
	go l.write()
	e := &start{Version: Version, Command: cfg.Command, Sources: cfg.Sources, To: cfg.To, ToBytes: exactBytes(cfg.To), DryRun: cfg.DryRun}
	exact := false
	for _, s := range cfg.Sources {
		exact = exact || exactBytes(s) != nil
		e.SourcesBytes = append(e.SourcesBytes, []byte(s))
	}
	if !exact {
		e.SourcesBytes = nil
	}
	l.Emit(e)
	return l
}

// Emit writes an event. It waits while the queue is full.
func (l *Log) Emit(e Event) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.sums.add(e)
	l.mu.Unlock()
	if l.Quiet && !isEssential(e) {
		return
	}
	l.queue(encode(e))
}

// isEssential reports whether even a quiet log writes an event.
func isEssential(e Event) bool {
	switch e.(type) {
	case *start, *failed, *commandFailed, *end:
		return true
	}
	return false
}

// Offer writes an event if no other events are waiting. Otherwise it drops the event, because the
// next event of its kind will be more recent.
func (l *Log) Offer(e Event) {
	if l == nil || l.Quiet || len(l.lines) > 0 {
		return
	}
	select {
	case l.lines <- encode(e):
	default:
	}
}

// Note writes a message for people.
func (l *Log) Note(text string) { l.Emit(&note{Message: console.Visible(text)}) }

// Failed writes that an entry failed, and why. It returns the error marked as reported, so that End
// does not write it again.
func (l *Log) Failed(e Entry, err error) error {
	if l == nil || err == nil {
		return err
	}
	l.Emit(&failed{Entry: e, fault: l.fault(err)})
	return Reported(err)
}

// fault describes an error.
func (l *Log) fault(err error) fault {
	code, cause := l.Classify(err)
	return fault{console.Visible(err.Error()), cause, code}
}

// Reported marks an error as already reported by an event about an entry.
func Reported(err error) error {
	several := failure.Joined(err)
	if len(several) == 0 {
		return &reportedError{err}
	}
	marked := make([]error, len(several))
	for i, err := range several {
		marked[i] = Reported(err)
	}
	return errors.Join(marked...)
}

type reportedError struct{ error }

func (r *reportedError) Unwrap() error { return r.error }

// End writes the errors of the command that have not been reported, and the last event. It returns
// err, joined with a write error if there was one.
func (l *Log) End(err error) error {
	if l == nil {
		return err
	}
	defer l.stop()
	e := &end{Result: resultOK, DryRun: l.DryRun}
	if err != nil {
		e.Result = resultIncomplete
		e.ExitCode, _ = l.Classify(err)
		l.explain(err, e)
	}
	took := time.Since(l.began)
	e.Seconds = Seconds(took)
	l.mu.Lock()
	e.counts = l.sums
	l.mu.Unlock()
	e.Rate = console.PerSecond(e.Bytes, took)
	e.Lost = l.lost.Load()
	l.queue(encode(e))
	l.queue(nil)
	if l.written() && l.err != nil {
		err = errors.Join(err, failure.Local.Errorf("write the events: %w", l.err))
	}
	return err
}

// written waits until all lines are written, and reports whether they are. After an interruption
// the wait is bounded.
func (l *Log) written() bool {
	select {
	case <-l.done:
		return true
	case <-l.late:
	}
	select {
	case <-l.done:
		return true
	case <-time.After(grace):
		return false
	}
}

// explain writes the errors that no other event has reported, and sets the result.
func (l *Log) explain(err error, e *end) {
	if several := failure.Joined(err); len(several) > 0 {
		for _, err := range several {
			l.explain(err, e)
		}
		return
	}
	_, reported := errors.AsType[*reportedError](err)
	advice, advises := errors.AsType[failure.Note](err)
	switch {
	case errors.Is(err, context.Canceled) && l.ctx.Err() != nil:
		e.Result = resultInterrupted
	case advises:
		l.Note(advice.Error())
	case !reported:
		l.Emit(&commandFailed{fault: l.fault(err)})
		if e.Result == resultIncomplete {
			e.Result = resultFailed
		}
	}
}

// Seconds returns a time in seconds, to the millisecond.
func Seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e3) / 1e3 }

// encode returns the line of an event.
func encode(e Event) []byte {
	e.stamp(e.name(), time.Now())
	var b bytes.Buffer
	_ = console.WriteJSON(&b, e) // a buffer accepts everything, and all types can be encoded
	return b.Bytes()
}

// queue queues a line. If there is no room, it waits until there is, or until grace has passed
// after an interruption.
func (l *Log) queue(line []byte) {
	select {
	case l.lines <- line:
		return
	default:
	}
	select {
	case l.lines <- line:
	case <-l.done:
	case <-l.late:
		l.lost.Add(1)
	}
}

// write writes the queued lines, in batches of the lines that are waiting. After a write error it
// discards the rest, and the command continues.
func (l *Log) write() {
	defer close(l.done)
	var batch []byte
	for {
		line := <-l.lines
		batch = append(batch[:0], line...)
		for line != nil && len(l.lines) > 0 && len(batch) < maxBatch {
			line = <-l.lines
			batch = append(batch, line...)
		}
		if l.err == nil {
			_, l.err = l.Out.Write(batch)
		}
		if line == nil {
			return
		}
	}
}
