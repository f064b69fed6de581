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
	// receiveSize is how many bytes are received at a time from a connection.
	receiveSize = 64 << 10

	// connEvents are the events of a connection that its epoll reports, edge-triggered.
	connEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET
)

// A loop serves all connections of one listening socket by calling [Handler.OnData]. Its epoll
// reports events of connections once (edge-triggered), and those of the listening socket until they
// are handled. The goroutine waits for the epoll in Go's poller, so an idle loop occupies no
// thread.
type loop struct {
	handler *Handler
	s       *drive.Socket
	max     *flow.Limits
	spare   *conns.Conn // memory for the next connection

	poll *rawsock.Epoll

	woken atomic.Bool // Wake was called: attend must run
	full  atomic.Bool // there was no place for a connection: PlaceFree must wake the loop

	// Only the loop's goroutine uses the fields below. A handler may end this goroutine with
	// runtime.Goexit; a new goroutine then continues with the same values.
	n, at   int     // number of events, and index of the next one to handle
	ready   []*Conn // connections to serve in the next round
	batch   []*Conn // connections that are left to serve in this round
	current *Conn   // the connection whose handler runs

	table []*Conn  // the connections; the index is their slot. A free slot is nil
	free  []uint32 // the free slots of table
	conns int

	in  []byte // receive buffer for connections without held bytes
	out []byte // scratch memory that collects what the handlers write in a turn

	listens   bool          // the listening socket is in the epoll
	accepts   bool          // the loop accepts now, or will again after a pause; false after endAccept
	delay     time.Duration // the last wait after a failure to accept
	idleEnded bool          // the server is ending: connections that become idle are closed
	lateEnded bool          // connections whose clients have sent nothing yet are closed too
	drainedAt time.Time
	firstLook bool // connections are accepted only once the client has sent something, so receive at once
}

// Wake makes the loop notice a change by another goroutine. Any goroutine may call it.
func (l *loop) Wake() {
	l.woken.Store(true)
	l.poll.Wake()
}

// serve serves a connection after an event. It survives a panic of the handler.
func (l *loop) serve(e *Conn) {
	returned := false
	defer l.guard(e, &returned)
	l.advance(e)
	returned = true
}

// guard is deferred. It ends the connection if its handler has panicked, or has called
// runtime.Goexit.
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

// advance does the next step for a connection: it sends, calls the handler, or receives.
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

// Call and Send implement flow.Driver for l.current.
func (l *loop) Call(data []byte) int { return l.handler.call(l.current, data) }

// Send sends as many bytes as the socket has room for, without waiting.
func (l *loop) Send(b []byte, last bool) (int, error) { return l.current.c.TrySend(b, last) }

// receive receives once, and lets the handler use the received bytes, together with the bytes held
// before.
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

// readHeader parses the PROXY header of a connection. Once it is complete, the handler gets the
// bytes after it.
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
	if next != flow.Idle { // the handler's greeting is not sent yet
		e.flow.Hold(rest)
		return next, nil
	}
	return l.turn(e, rest)
}

// schedule records in e.next what a connection waits for. It ends the connection if there was an
// error, if next is flow.Over, or if the connection is idle while the server is ending.
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

// admit checks the client's address, and prepares the first call of the handler.
func (l *loop) admit(e *Conn, client netip.Addr) bool {
	if err := l.s.Gate.Check(e.c, client); err != nil {
		l.reject(e, err)
		return false
	}
	e.c.Listen()
	e.next = flow.Again
	return true
}

// reject reports why a connection is refused, and closes it. The handler was not called for it.
func (l *loop) reject(e *Conn, err error) {
	defer l.remove(e) // even if the program's Refused or BadHandshake panics
	l.s.Reject(e.c, e.handle(), err)
}

// finish ends a connection, and passes the reason to OnEnd.
func (l *loop) finish(e *Conn, err error) {
	if e.late != nil { // OnEnd was already called
		l.remove(e)
		return
	}
	// If the server has ended the connection, err is only a consequence of that.
	if why := e.c.Ended(); why != nil {
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

// hasUnread reports whether there are unused bytes from the client of a connection that the server
// ends. In that case, closing would send a reset, and the client's kernel would discard the last
// answer (RFC 1122, section 4.2.2.13). If the handler closes the connection, no system call is
// spent on the check, so bytes that arrived during the handler's turn are missed.
func (l *loop) hasUnread(e *Conn, err error) bool {
	switch {
	case e.c.Ended() != nil || e.flow.Ended():
		return false
	case err == nil:
		return e.ready || e.flow.Holds()
	}
	return errors.Is(err, conns.ErrDraining) && rawsock.Readable(e.c.FD)
}

// linger closes the sending half of a connection, and keeps the rest open until the client has
// closed its half too, for at most Times.Drain. Meanwhile the connection has no timeouts, and is
// not counted as cut.
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

// discard receives once and drops the bytes. It closes the connection once the client has closed
// its half.
func (l *loop) discard(e *Conn) {
	switch n, errno := rawsock.Recv(e.c.FD, l.in, 0); {
	case errno == unix.EAGAIN: // keep the connection until its next event
	case errno != 0 || n == 0:
		l.remove(e)
	default:
		l.queue(e)
	}
}

// remove closes a connection and frees its slot.
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
