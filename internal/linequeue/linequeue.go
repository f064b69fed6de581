// Package linequeue writes the lines of a log on its own goroutine, so that a log that nobody reads
// does not stop a server. log.go contains the queue of a [slog.Logger], and ratelimited.go bounds
// the number of lines that strangers can cause.
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

// A Queue writes lines in order. The function write makes each line from a T.
type Queue[T any] struct {
	write    func(line T)
	writeGap func(lost int64)
	lines    chan T
	lost     atomic.Int64
	closed   chan struct{}
	done     chan struct{} // closed when Run has returned
}

// New returns a queue whose lines Run writes. When lines were lost, Run calls writeGap with their
// number as soon as there is room again.
func New[T any](write func(line T), writeGap func(lost int64)) *Queue[T] {
	return &Queue[T]{
		write: write, writeGap: writeGap,
		lines: make(chan T, Max), closed: make(chan struct{}), done: make(chan struct{}),
	}
}

// Add queues a line. It never waits.
func (q *Queue[T]) Add(line T) {
	select {
	case q.lines <- line:
	default:
		q.lost.Add(1)
	}
}

// Lost returns how many lines were dropped.
func (q *Queue[T]) Lost() int64 { return q.lost.Load() }

// Run writes lines until Close, and then the remaining ones.
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

// Close waits until Run has written the lines, but not longer than Grace. It returns how many are
// still to be written. Later lines are lost. Close must be called only once.
func (q *Queue[T]) Close() (left int) {
	close(q.closed)
	select {
	case <-q.done:
	case <-time.After(Grace):
	}
	return len(q.lines)
}
