// Package linequeue writes the lines of a log on its own goroutine, so that a server does not stop
// when the log blocks, for example because it is a pipe that nobody reads. A [Log] queues the lines
// of a [slog.Logger]. A [RateLimited] and a [Budget] bound the number of lines that strangers can
// cause.
package linequeue

import (
	"sync/atomic"
	"time"
)

const (
	// Max is how many lines may wait. Further lines are dropped and counted.
	Max = 4096

	// Grace is how long Close waits for the log.
	Grace = time.Second
)

// A Queue passes lines to a function, in order and one at a time. If the function is slow, the
// queue drops lines instead of waiting. A line is a value of type T.
type Queue[T any] struct {
	write    func(line T)
	writeGap func(lost int64)
	lines    chan T
	lost     atomic.Int64
	closed   chan struct{} // closed by Close
	done     chan struct{} // closed when Run has returned
}

// New returns a queue. Run, which the caller starts on a goroutine, passes its lines to write. If
// lines were lost, Run writes the next line, and then calls writeGap with the number of lost lines.
func New[T any](write func(line T), writeGap func(lost int64)) *Queue[T] {
	return &Queue[T]{
		write: write, writeGap: writeGap,
		lines: make(chan T, Max), closed: make(chan struct{}), done: make(chan struct{}),
	}
}

// Add queues a line, and reports whether there was room. It never waits.
func (q *Queue[T]) Add(line T) bool {
	select {
	case q.lines <- line:
		return true
	default:
		q.lost.Add(1)
		return false
	}
}

// Lost returns how many lines were dropped.
func (q *Queue[T]) Lost() int64 { return q.lost.Load() }

// Run writes lines until Close is called. Then it writes the lines that are still queued, and returns.
func (q *Queue[T]) Run() {
	defer close(q.done)
	reported := int64(0)
	write := func(line T) {
		q.write(line)
		if n := q.lost.Load(); n > reported {
			q.writeGap(n - reported)
			reported = n
		}
	}
	for {
		select {
		case line := <-q.lines:
			write(line)
		case <-q.closed:
			for len(q.lines) > 0 {
				write(<-q.lines)
			}
			return
		}
	}
}

// Close waits until Run has written the queued lines, but not longer than Grace. It returns how many
// lines were not written yet. Lines that are added later are lost. Close must be called only once.
func (q *Queue[T]) Close() (left int) {
	close(q.closed)
	select {
	case <-q.done:
	case <-time.After(Grace):
	}
	return len(q.lines)
}
