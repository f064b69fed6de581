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

	// connEvents are the epoll events of a connection.
	connEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET
)

// A loop serves all connections of one listening socket by calling [Handler.OnData]. It has an
// epoll, in which all descriptors except the listening one are edge-triggered. The goroutine waits
// for the epoll in Go's poller, so an idle loop holds no thread.
type loop struct {
	handler *Handler
	s       *drive.Socket
	max     *flow.Limits
	spare   *conns.Conn // for the next connection

	poll *rawsock.Epoll

	woken atomic.Bool // attend has work to do
	full  atomic.Bool // the loop waits for a place for a connection

	// The loop's goroutine owns the fields below. A handler may end this goroutine with
	// runtime.Goexit; a new goroutine then continues with them.
	n, at   int     // number of events, and index of the next one to handle
	ready   []*Conn // to serve in the next round
	batch   []*Conn // being served in this round
	current *Conn   // the connection whose handler runs

	table []*Conn  // by slot
	free  []uint32 // slots
	conns int

	in  []byte // receive buffer for connections that hold nothing
	out []byte // scratch memory for the handlers' writes

	listens   bool          // the listening socket is in the epoll
	accepts   bool          // the loop accepts connections, or will accept them again
	delay     time.Duration // the latest wait after accepting failed
	idleEnded bool          // the end has begun: connections no longer stay idle
	lateEnded bool          // connections that have sent nothing end as well
	drainedAt time.Time
	firstLook bool // data is already there when a connection is accepted
}

// Wake makes the loop handle a change by another goroutine.
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

// advance serves a connection until it needs another event.
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

// Call and Send implement flow.Driver for the current connection.
func (l *loop) Call(data []byte) int { return l.handler.call(l.current, data) }

// Send sends as many bytes as there is room for.
func (l *loop) Send(b []byte, last bool) (int, error) { return l.current.c.TrySend(b, last) }

// receive receives once, and lets the handler use the bytes held.
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

// readHeader reads a PROXY header, and then serves the bytes after it.
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
	if next != flow.Idle { // the greeting is not sent yet
		e.flow.Hold(rest)
		return next, nil
	}
	return l.turn(e, rest)
}

// schedule records what a connection waits for, and ends it if it waits for nothing.
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

// queue schedules a connection for the next round.
func (l *loop) queue(e *Conn) {
	if !e.queued {
		e.queued = true
		l.ready = append(l.ready, e)
	}
}

// admit admits a connection, and calls its handler for the first time.
func (l *loop) admit(e *Conn, client netip.Addr) bool {
	if err := l.s.Gate.Check(e.c, client); err != nil {
		l.reject(e, err)
		return false
	}
	e.c.Listen()
	e.next = flow.Again
	return true
}

// reject ends a connection before the handler gets it.
func (l *loop) reject(e *Conn, err error) {
	defer l.remove(e) // even if the program's function panics
	l.s.Reject(e.c, e.handle(), err)
}

// finish ends a connection, and reports the reason to the program.
func (l *loop) finish(e *Conn, err error) {
	if e.late != nil { // the program already knows
		l.remove(e)
		return
	}
	if why := e.c.Ended(); why != nil { // the error of a call is only a consequence
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
		defer l.remove(e) // even if OnEnd calls runtime.Goexit
	}
	l.handler.end(e, err)
}

// hasUnread reports whether the client of a connection that the server ends has sent bytes that
// were not used. Closing would then send a reset, and the kernel would discard the last answer (RFC
// 1122, section 4.2.2.13). If a handler closes, no system call is spent on the check, so bytes that
// arrived during its turn are missed.
func (l *loop) hasUnread(e *Conn, err error) bool {
	switch {
	case e.c.Ended() != nil || e.flow.Ended():
		return false
	case err == nil:
		return e.ready || e.flow.Holds()
	}
	return errors.Is(err, conns.ErrDraining) && rawsock.Readable(e.c.FD)
}

// linger ends sending, and keeps a connection until its client has ended it too, for at most
// Times.Drain. Meanwhile it has no timeouts and does not count as cut.
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

// discard receives once and drops the bytes.
func (l *loop) discard(e *Conn) {
	switch n, errno := rawsock.Recv(e.c.FD, l.in, 0); {
	case errno == unix.EAGAIN: // until the next event
	case errno != 0 || n == 0:
		l.remove(e)
	default:
		l.queue(e)
	}
}

// remove releases the resources of a connection.
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
