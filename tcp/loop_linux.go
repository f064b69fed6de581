//go:build linux && !haul_portable

package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/flow"
	"github.com/haul-project/haul/tcp/internal/proxy"
	"github.com/haul-project/haul/tcp/internal/rawsock"
)

// hasLoops says that loops serve the connections of [Server.OnData], and that a stopped socket
// still accepts those in its queue.
const hasLoops = true

// A loopState is what a loop knows of a connection.
type loopState struct {
	next   flow.Next // what it waits for
	slot   uint32    // of the loop's table
	ready  bool      // there may be bytes to read
	closed bool      // the kernel has reported an end or urgent data: read until there is nothing
	queued bool      // in the loop's list for its next round
	header bool      // its PROXY header is to come

	late *time.Timer // lingers: ends it. It is over for the program, and what its client still sends is discarded
}

// A loop serves all connections of one listening socket by calls of [Server.OnData]. It has
// an epoll, in which all descriptors are edge-triggered but the listening one. The goroutine
// waits for the epoll in Go's poller, so a loop that has nothing to do holds no thread.
type loop struct {
	a   *acceptor
	max *flow.Limits

	poll *rawsock.Epoll

	woken atomic.Bool // attend has something to do
	full  atomic.Bool // it waits for a place for a connection

	// Of the loop's goroutine. A handler may end that by runtime.Goexit, and the next one
	// continues here.
	n, at   int          // events, and the next one to handle
	ready   []*EventConn // to be served in the next round
	batch   []*EventConn // of the present round
	current *EventConn   // whose handler runs

	table []*EventConn // by slot
	free  []uint32     // slots
	conns int

	in  []byte // for what is received, while nothing is held
	out []byte // scratch, for what a handler writes

	listens   bool          // the epoll has the listening socket
	accepts   bool          // it accepts, or will again
	delay     time.Duration // after it could not
	idleEnded bool          // the end has begun: no connection stays idle
	lateEnded bool          // nor one that has sent nothing
	drainedAt time.Time
	firstLook bool // data is there when a connection is accepted
}

const (
	// receiveSize is how much is received at once from a connection.
	receiveSize = 64 << 10

	// connEvents are those of a connection.
	connEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET
)

// newLoop makes the loop of an acceptor.
func newLoop(a *acceptor) (*loop, error) {
	l := &loop{a: a, max: a.g.s.limits(), accepts: true, in: make([]byte, receiveSize)}
	var err error
	if l.poll, err = rawsock.NewEpoll(); err != nil {
		return nil, err
	}
	if err := l.listen(true); err != nil {
		_ = l.poll.Close()
		return nil, err
	}
	deferred, _ := unix.GetsockoptInt(a.k.fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT)
	l.firstLook = deferred > 0
	a.watch.asleep.Store(true) // until a connection is accepted
	a.k.loop.Store(l)
	return l, nil
}

// close gives back the epoll. A nil loop has none.
func (l *loop) close() {
	if l != nil {
		_ = l.poll.Close()
	}
}

// wake has the loop attend to what another goroutine has changed. A nil loop does not.
func (l *loop) wake() {
	if l != nil {
		l.woken.Store(true)
		l.poll.Wake()
	}
}

// placeFree wakes the loop if it waits for a place for a connection.
func (l *loop) placeFree() {
	if l.full.Load() && l.full.Swap(false) {
		l.wake()
	}
}

// run is the loop's goroutine.
func (l *loop) run() {
	over := false
	defer func() {
		if !over { // a handler has called runtime.Goexit
			l.a.work.Go(l.run)
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
			l.close()
			return
		}
		runtime.Gosched() // meanwhile more may arrive
		l.n = l.poll.Wait()
	}
}

// handle handles the events, and serves the connections that were left for this round.
func (l *loop) handle() {
	for l.at < l.n {
		events, slot := l.poll.Event(l.at)
		l.at++
		if slot == listenSlot {
			l.accept()
		} else if e := l.table[slot]; e != nil {
			// The slot may have changed hands since the event. Then there is nothing to
			// read, or no more room.
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
		l.batch[last] = nil // so that it is not kept when it has ended
		l.batch = l.batch[:last]
		if e.queued = false; e.next != flow.Over {
			l.serve(e)
		}
	}
}

// attend handles what others have changed.
func (l *loop) attend() {
	if l.a.g.isDraining() {
		l.drain()
	}
	switch {
	case !l.accepts:
	case hasEnded(l.a.g.ctx.Done()):
		l.endAccept(net.ErrClosed)
	default:
		if err := l.listen(true); err != nil {
			l.endAccept(err)
			return
		}
		l.accept()
	}
}

// drain begins the end. Connections without a request are closed then, and after lastCall
// those of clients that have sent nothing.
func (l *loop) drain() {
	switch {
	case !l.idleEnded:
		l.idleEnded, l.drainedAt = true, time.Now()
		time.AfterFunc(l.a.g.lastCall, l.wake)
	case !l.lateEnded && time.Since(l.drainedAt) >= l.a.g.lastCall:
		l.lateEnded = true
	default:
		return
	}
	for _, e := range l.table {
		if e != nil && e.next == flow.Idle && !e.queued { // a request may be in the kernel
			e.ready = true
			l.queue(e)
		}
	}
}

// serve serves a connection after an event.
func (l *loop) serve(e *EventConn) {
	returned := false
	defer l.guard(e, &returned)
	l.advance(e)
	returned = true
}

// guard is deferred. It ends a connection whose handler panics, or calls runtime.Goexit.
func (l *loop) guard(e *EventConn, returned *bool) {
	if *returned {
		return
	}
	if v := recover(); v != nil {
		l.a.g.s.panicked(e.RemoteAddr(), v)
	}
	if e.next != flow.Over {
		l.finish(e, ErrPanicked)
	}
}

// advance serves a connection as far as that needs no other event.
func (l *loop) advance(e *EventConn) {
	if e.late != nil {
		l.discard(e)
		return
	}
	if e.c.ended.Load() != nil {
		l.finish(e, nil)
		return
	}
	next, err := e.next, error(nil)
	switch {
	case next == flow.Blocked:
		l.current = e
		next, err = e.flow.Flush(l)
	case next == flow.Again:
		next, err = l.turn(e, e.flow.Held())
	case e.ready:
		next, err = l.receive(e)
	}
	if e.next != flow.Over {
		l.schedule(e, next, err)
	}
}

func (l *loop) turn(e *EventConn, data []byte) (flow.Next, error) {
	l.current = e
	return e.flow.Turn(data, &l.out, l, *l.max)
}

// Call and Send make it a flow.Driver, for the current connection.
func (l *loop) Call(data []byte) int { return l.a.g.s.onData(l.current, data) }

// Send sends what there is room for. In front of the end the kernel holds back a partial
// segment, so that it carries the end too.
func (l *loop) Send(b []byte, last bool) (int, error) {
	flags := unix.MSG_NOSIGNAL
	if last {
		flags |= unix.MSG_MORE
	}
	c := l.current.c
	n, errno := c.sendSome(c.fd, b, flags)
	if errno == unix.EAGAIN {
		errno = 0
	}
	return written(n, errno)
}

// receive receives once, and has the handler use what there is.
func (l *loop) receive(e *EventConn) (flow.Next, error) {
	c := e.c
	holds := e.flow.Holds()
	room := l.in
	if holds {
		room = e.flow.Room()
	}
	n, errno := rawsock.Recv(c.fd, room, 0)
	switch {
	case errno == unix.EAGAIN:
		e.ready, e.closed = false, false
		return e.next, nil
	case errno != 0:
		return flow.Over, os.NewSyscallError("read", errno)
	case n == 0 && e.header && holds:
		return flow.Over, io.ErrUnexpectedEOF
	case n == 0 && e.header:
		return flow.Over, io.EOF
	case n == 0:
		e.ready = false
		e.flow.End()
		return l.turn(e, e.flow.Held())
	}
	e.ready = n == len(room) || e.closed
	data := room[:n]
	if holds {
		e.flow.Received(n)
		data = e.flow.Held()
	}
	if say := l.a.roster.firstBytes; say != nil && c.phase.Load() == listening {
		say(e.handle(), data)
	}
	c.heard()
	if e.header {
		return l.readHeader(e, data)
	}
	return l.turn(e, data)
}

// readHeader reads a PROXY header, and then serves what is behind it.
func (l *loop) readHeader(e *EventConn, data []byte) (flow.Next, error) {
	h, n, err := proxy.Parse(data)
	if errors.Is(err, proxy.ErrShort) {
		e.flow.Hold(data)
		return flow.Partial, nil
	}
	if err != nil {
		return flow.Over, err
	}
	e.header = false
	rest := append([]byte(nil), data[n:]...)
	e.flow.Hold(nil)
	if !l.admit(e, e.c.takeAddrs(h)) {
		return flow.Over, nil
	}
	next, err := l.turn(e, nil)
	if len(rest) == 0 || err != nil {
		return next, err
	}
	e.c.heard()
	if next != flow.Idle { // the greeting has not left
		e.flow.Hold(rest)
		return next, nil
	}
	return l.turn(e, rest)
}

// schedule notes what a connection waits for, and ends it if that is nothing.
func (l *loop) schedule(e *EventConn, next flow.Next, err error) {
	e.next = next
	idle := next == flow.Idle
	switch {
	case err != nil || next == flow.Over:
		l.finish(e, err)
		return
	case next == flow.Again || e.ready && next != flow.Blocked:
		l.queue(e)
	case idle && l.idleEnded && (l.lateEnded || e.c.phase.Load() == open):
		l.finish(e, ErrDraining)
		return
	}
	if e.c.idle.Load() != idle {
		e.c.idle.Store(idle)
	}
}

// queue has a connection served in the next round.
func (l *loop) queue(e *EventConn) {
	if !e.queued {
		e.queued = true
		l.ready = append(l.ready, e)
	}
}
