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

// Version is the version of the format. It is incremented when an event or a field is removed or
// changes its meaning, but not when one is added.
const Version = 1

const (
	// maxQueue is how many lines may wait for the reader. When the queue is full, code that emits
	// an event waits.
	maxQueue = 256

	// maxBatch limits the bytes of one write, not counting its last line.
	maxBatch = 64 << 10

	// grace is how long an interrupted command still waits for the reader of its events.
	grace = time.Second

	// Every is the minimum time between two progress events.
	Every = 500 * time.Millisecond
)

// A Config describes the command whose events a Log writes.
type Config struct {
	Out     io.Writer
	Command string
	Sources []string
	To      string // the target as the user typed it; "" if the command has no target
	DryRun  bool
	Quiet   bool // write only the events start, failed, error and end

	// Classify returns the exit code of an error, and a word for it.
	Classify func(error) (code int, cause string)
}

// A Log writes events. A separate goroutine writes the lines, so a slow reader delays running
// transfers only when the queue is full.
type Log struct {
	Config
	ctx   context.Context
	began time.Time
	lines chan []byte   // queue of lines to write; a nil line makes the goroutine return
	done  chan struct{} // closed when the goroutine has returned
	late  chan struct{} // closed when the time `grace` has passed since the end of ctx
	lost  atomic.Int64  // number of events that were dropped because the reader was too slow
	stop  func() bool   // keeps `late` from being closed, unless ctx has ended already
	err   error         // the goroutine's write error; valid once done is closed

	mu   sync.Mutex
	sums counts // counts of all events so far, for the event "end"; guarded by mu
}

// Begin starts a log, and writes the event start. ctx is the context of the command.
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

// isEssential reports whether an event is written even if the log is quiet.
func isEssential(e Event) bool {
	switch e.(type) {
	case *start, *failed, *commandFailed, *end:
		return true
	}
	return false
}

// Offer writes an event if no other events wait to be written. Otherwise it drops the event. Use it
// only for events that are repeated with newer values, so that a dropped one does no harm.
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

// Failed writes an event that says that an entry failed, and why. It returns the error marked as
// reported, so that End does not write it again.
func (l *Log) Failed(e Entry, err error) error {
	if l == nil || err == nil {
		return err
	}
	l.Emit(&failed{Entry: e, fault: l.fault(err)})
	return Reported(err)
}

// fault returns the fields that describe an error in an event.
func (l *Log) fault(err error) fault {
	code, cause := l.Classify(err)
	return fault{console.Visible(err.Error()), cause, code}
}

// Reported marks an error as reported, because an event about an entry contains it already.
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

// End writes the errors of the command that have not been reported yet, and then the last event. It
// returns err, joined with the write error if writing failed.
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

// written waits until all lines are written, and reports whether they are. After an interruption it
// waits until the channel `late` is closed, and then at most for the time `grace`.
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

// explain writes the errors that no event has reported yet, and sets the result of the event end.
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

// Seconds returns a duration in seconds, rounded to milliseconds.
func Seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e3) / 1e3 }

// encode returns the line of an event.
func encode(e Event) []byte {
	e.stamp(e.name(), time.Now())
	var b bytes.Buffer
	_ = console.WriteJSON(&b, e) // cannot fail: a buffer accepts everything, and all types can be encoded
	return b.Bytes()
}

// queue appends a line to the queue. While the queue is full, it waits. After an interruption it
// waits at most for the time `grace`, and then drops the line.
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

// write writes the queued lines. It combines lines that wait into one write. After a write error it
// discards all further lines, and the command continues.
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
