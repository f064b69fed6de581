//go:build linux && !haul_portable

package events

import (
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/drive"
	"github.com/haul-project/haul/tcp/internal/flow"
	"github.com/haul-project/haul/tcp/internal/rawsock"
)

// NewLoop returns a loop that accepts and serves the connections of a socket. The server calls it.
func (h *Handler) NewLoop(s *drive.Socket) (drive.Loop, error) {
	l := &loop{handler: h, s: s, max: h.limits(), accepts: true, in: make([]byte, receiveSize)}
	var err error
	if l.poll, err = rawsock.NewEpoll(); err != nil {
		return nil, err
	}
	if err := l.listen(true); err != nil {
		_ = l.poll.Close()
		return nil, err
	}
	deferred, _ := unix.GetsockoptInt(s.FD, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT)
	l.firstLook = deferred > 0
	return l, nil
}

// Close closes the epoll. It is only called for a loop that does not run.
func (l *loop) Close() { _ = l.poll.Close() }

// PlaceFree wakes the loop if it waits for a place for a connection.
func (l *loop) PlaceFree() {
	if l.full.Load() && l.full.Swap(false) {
		l.Wake()
	}
}

// Run serves connections until the loop accepts no more and the last connection has ended.
func (l *loop) Run() {
	over := false
	defer func() {
		if !over { // a handler has called runtime.Goexit, which ends this goroutine: start a new one
			l.s.Go(l.Run)
		}
	}()
	for {
		l.handle()
		if l.woken.Swap(false) {
			l.attend()
		}
		l.n, l.at = l.poll.Look(), 0
		if l.n > 0 || len(l.ready) > 0 {
			continue
		}
		if !l.accepts && l.conns == 0 {
			over = true
			l.Close()
			return
		}
		runtime.Gosched() // more events may arrive meanwhile
		l.n = l.poll.Wait()
	}
}

// handle handles the events that the epoll returned, and serves the connections that were queued in
// the last round.
func (l *loop) handle() {
	for l.at < l.n {
		events, slot := l.poll.Event(l.at)
		l.at++
		if slot == listenSlot {
			l.accept()
		} else if e := l.table[slot]; e != nil {
			// If the connection in the slot has ended since the event, the slot may have a new
			// connection. That does no harm: there is then just nothing to read, or no room to
			// send.
			e.ready = e.ready || events&^unix.EPOLLOUT != 0
			e.closed = e.closed || events&^(unix.EPOLLIN|unix.EPOLLOUT) != 0
			l.serve(e)
		}
	}
	if len(l.batch) == 0 {
		l.batch, l.ready = l.ready, l.batch
	}
	for len(l.batch) > 0 {
		last := len(l.batch) - 1
		e := l.batch[last]
		l.batch[last] = nil // so that the batch does not keep the connection in memory
		l.batch = l.batch[:last]
		if e.queued = false; e.next != flow.Over {
			l.serve(e)
		}
	}
}

// attend handles a change by another goroutine: the server is ending, a place has become free, or a
// wait before accepting again is over.
func (l *loop) attend() {
	if l.s.Gate.Draining() {
		l.drain()
	}
	switch {
	case !l.accepts:
	case l.s.Gate.IsOver():
		l.endAccept(net.ErrClosed)
	default:
		if err := l.listen(true); err != nil {
			l.endAccept(err)
			return
		}
		l.accept()
	}
}

// drain closes idle connections once the server is ending: at first those whose clients have sent
// something before, and after Times.Drain also those whose clients have sent nothing yet.
func (l *loop) drain() {
	switch {
	case !l.idleEnded:
		l.idleEnded, l.drainedAt = true, time.Now()
		time.AfterFunc(l.s.Gate.Times.Drain, l.Wake)
	case !l.lateEnded && time.Since(l.drainedAt) >= l.s.Gate.Times.Drain:
		l.lateEnded = true
	default:
		return
	}
	for _, e := range l.table {
		// Queue idle connections instead of closing them now, because the kernel may already have
		// received a request.
		if e != nil && e.next == flow.Idle && !e.queued {
			e.ready = true
			l.queue(e)
		}
	}
}
