//go:build linux && !haul_portable

package events

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/drive"
	"github.com/haul-project/haul/tcp/internal/flow"
	"github.com/haul-project/haul/tcp/internal/proxy"
	"github.com/haul-project/haul/tcp/internal/rawsock"
)

const (
	// receiveSize is how much is received at once from a connection.
	receiveSize = 64 << 10

	// connEvents are those of a connection.
	connEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET
)

// A loop serves all connections of one listening socket by calls of [Handler.OnData]. It has
// an epoll, in which all descriptors are edge-triggered but the listening one. The goroutine
// waits for the epoll in Go's poller, so a loop that has nothing to do holds no thread.
type loop struct {
	handler *Handler
	s       *drive.Socket
	max     *flow.Limits
	spare   *conns.Conn // for the next connection

	poll *rawsock.Epoll

	woken atomic.Bool // attend has something to do
	full  atomic.Bool // it waits for a place for a connection

	// Of the loop's goroutine. A handler may end that by runtime.Goexit, and the next one
	// continues here.
	n, at   int     // events, and the next one to handle
	ready   []*Conn // to be served in the next round
	batch   []*Conn // of the present round
	current *Conn   // whose handler runs

	table []*Conn  // by slot
	free  []uint32 // slots
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

// Wake has the loop attend to what another goroutine has changed.
func (l *loop) Wake() {
	l.woken.Store(true)
	l.poll.Wake()
}

// serve serves a connection after an event.
func (l *loop) serve(e *Conn) {
	returned := false
	defer l.guard(e, &returned)
	l.advance(e)
	returned = true
}

// guard is deferred. It ends a connection whose handler panics, or calls runtime.Goexit.
func (l *loop) guard(e *Conn, returned *bool) {
	if *returned {
		return
	}
	if v := recover(); v != nil {
		l.s.Gate.Panicked(e.RemoteAddr(), v)
	}
	if e.next != flow.Over {
		l.finish(e, ErrPanicked)
	}
}

// advance serves a connection as far as that needs no other event.
func (l *loop) advance(e *Conn) {
	if e.late != nil {
		l.discard(e)
		return
	}
	if e.c.Ended() != nil {
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

func (l *loop) turn(e *Conn, data []byte) (flow.Next, error) {
	l.current = e
	return e.flow.Turn(data, &l.out, l, *l.max)
}

// Call and Send make it a flow.Driver, for the current connection.
func (l *loop) Call(data []byte) int { return l.handler.call(l.current, data) }

// Send sends what there is room for.
func (l *loop) Send(b []byte, last bool) (int, error) { return l.current.c.TrySend(b, last) }

// receive receives once, and has the handler use what there is.
func (l *loop) receive(e *Conn) (flow.Next, error) {
	c := e.c
	holds := e.flow.Holds()
	room := l.in
	if holds {
		room = e.flow.Room()
	}
	n, errno := rawsock.Recv(c.FD, room, 0)
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
	if c.Group().FirstBytes != nil && c.IsSilent() {
		c.FirstBytes(e.handle(), data)
	}
	c.Heard()
	if e.header {
		return l.readHeader(e, data)
	}
	return l.turn(e, data)
}

// readHeader reads a PROXY header, and then serves what is behind it.
func (l *loop) readHeader(e *Conn, data []byte) (flow.Next, error) {
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
	if !l.admit(e, e.c.TakeAddrs(h)) {
		return flow.Over, nil
	}
	next, err := l.turn(e, nil)
	if len(rest) == 0 || err != nil {
		return next, err
	}
	e.c.Heard()
	if next != flow.Idle { // the greeting has not left
		e.flow.Hold(rest)
		return next, nil
	}
	return l.turn(e, rest)
}

// schedule notes what a connection waits for, and ends it if that is nothing.
func (l *loop) schedule(e *Conn, next flow.Next, err error) {
	e.next = next
	idle := next == flow.Idle
	switch {
	case err != nil || next == flow.Over:
		l.finish(e, err)
		return
	case next == flow.Again || e.ready && next != flow.Blocked:
		l.queue(e)
	case idle && l.idleEnded && (l.lateEnded || e.c.HasSpoken()):
		l.finish(e, conns.ErrDraining)
		return
	}
	e.c.SetIdle(idle)
}

// queue has a connection served in the next round.
func (l *loop) queue(e *Conn) {
	if !e.queued {
		e.queued = true
		l.ready = append(l.ready, e)
	}
}

// admit lets a connection in. Its handler is then called for the first time.
func (l *loop) admit(e *Conn, client netip.Addr) bool {
	if err := l.s.Gate.Check(e.c, client); err != nil {
		l.reject(e, err)
		return false
	}
	e.c.Listen()
	e.next = flow.Again
	return true
}

// reject ends a connection that the handler does not get.
func (l *loop) reject(e *Conn, err error) {
	defer l.remove(e) // also if the program's function panics
	l.s.Reject(e.c, e.handle(), err)
}

// finish ends a connection, and reports to the program why.
func (l *loop) finish(e *Conn, err error) {
	if e.late != nil { // which the program knows
		l.remove(e)
		return
	}
	if why := e.c.Ended(); why != nil { // what a call returned is a consequence
		err = why
	}
	if e.header {
		l.reject(e, proxy.Failed(err))
		return
	}
	e.flow.Close()
	if l.hasUnread(e, err) {
		l.linger(e)
	} else {
		defer l.remove(e) // also if OnEnd calls runtime.Goexit
	}
	l.handler.end(e, err)
}

// hasUnread reports whether the client of a connection that the server ends has sent more
// than was used. A close would then be a reset, and the kernel would discard the last answer
// (RFC 1122, section 4.2.2.13). A handler's close pays no system call for the answer: bytes
// that came during its turn are not seen.
func (l *loop) hasUnread(e *Conn, err error) bool {
	switch {
	case e.c.Ended() != nil || e.flow.Ended():
		return false
	case err == nil:
		return e.ready || e.flow.Holds()
	}
	return errors.Is(err, conns.ErrDraining) && rawsock.Readable(e.c.FD)
}

// linger ends sending, and keeps a connection until its client has ended it too, at the
// longest for lastCall. It is not timed out meanwhile, nor counted as cut.
func (l *loop) linger(e *Conn) {
	e.c.Linger()
	e.next, e.ready = flow.Partial, true
	l.queue(e)
	gen := e.c.Gen()
	e.late = time.AfterFunc(l.s.Gate.Times.Drain, func() {
		if e.c.Take(gen) {
			e.c.Shutdown()
			e.c.Drop()
		}
	})
}

// discard receives once, for nobody.
func (l *loop) discard(e *Conn) {
	switch n, errno := rawsock.Recv(e.c.FD, l.in, 0); {
	case errno == unix.EAGAIN: // until the next event
	case errno != 0 || n == 0:
		l.remove(e)
	default:
		l.queue(e)
	}
}

// remove gives back what a connection has.
func (l *loop) remove(e *Conn) {
	c := e.c
	if e.late != nil {
		e.late.Stop()
	}
	l.table[e.slot], l.current = nil, nil
	l.free = append(l.free, e.slot)
	l.conns--
	e.next = flow.Over
	c.AwaitsNone()
	c.SetIdle(false)
	c.Finish()
}
