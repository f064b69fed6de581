//go:build linux && !haul_portable

package tcp

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/flow"
	"github.com/haul-project/haul/tcp/internal/rawsock"
)

const (
	// acceptBatch is how many connections are accepted in a round, so that others have
	// their turn.
	acceptBatch = 64

	// listenSlot stands for the listening socket.
	listenSlot = 1<<32 - 1
)

// listen adds the listening socket to the epoll, or removes it.
func (l *loop) listen(on bool) error {
	if l.listens == on {
		return nil
	}
	op := unix.EPOLL_CTL_DEL // explicitly, as another process may have the socket
	if on {
		op = unix.EPOLL_CTL_ADD
	}
	if err := l.poll.Control(op, l.a.k.fd, unix.EPOLLIN, listenSlot); err != nil {
		return err
	}
	l.listens = on
	return nil
}

// accept accepts connections that wait.
func (l *loop) accept() {
	a := l.a
	for range acceptBatch {
		if !l.takePlace() {
			return
		}
		if a.spare == nil {
			a.spare = a.roster.take()
		}
		fd, errno := rawsock.Accept(a.k.fd, &a.spare.from)
		if errno != 0 {
			l.notAccepted(errno)
			return
		}
		c := a.spare
		c.fd, l.delay = fd, 0
		c.sysReset()
		a.watch.asleep.Store(false)
		if refuse := a.g.s.Refuse; refuse && !a.g.admit(c) || !refuse && !a.g.countSource(c) {
			c.sysClose()
			continue
		}
		a.spare = nil
		l.open(c)
	}
}

// takePlace takes a place for a connection before it is accepted. If there is none, the
// listening socket leaves the epoll until there is.
func (l *loop) takePlace() bool {
	s := l.a.g.s
	if s.places == nil || s.Refuse {
		return true
	}
	for range 2 {
		select {
		case s.places <- struct{}{}:
			l.full.Store(false)
			return true
		default:
			l.full.Store(true) // a place that is free from now on wakes the loop
		}
	}
	_ = l.listen(false)
	return false
}

// notAccepted handles an error of accepting.
func (l *loop) notAccepted(errno syscall.Errno) {
	g, k := l.a.g, l.a.k
	if !g.s.Refuse {
		g.left(netip.Addr{})
	}
	if errno == unix.EAGAIN {
		if !k.stopped.Load() {
			return
		}
		if wait := time.Until(k.acceptUntil); wait > 0 {
			time.AfterFunc(wait, l.wake)
			return
		}
		l.endAccept(net.ErrClosed)
		return
	}
	switch err := os.NewSyscallError("accept4", errno); {
	case isOfPeer(err):
	case isTemporary(err):
		l.delay = min(max(firstAcceptDelay, 2*l.delay), maxAcceptDelay)
		g.acceptFailed(err, l.delay)
		_ = l.listen(false)
		time.AfterFunc(l.delay, l.wake)
	default:
		l.endAccept(err)
	}
}

// endAccept accepts no more.
func (l *loop) endAccept(err error) {
	_ = l.listen(false)
	l.accepts = false
	l.a.end(err)
}

// open begins to serve a connection.
func (l *loop) open(c *conn) {
	g := l.a.g
	l.a.roster.enter(c)
	c.readWait.Store(c.shared.clock.Load())
	e := &EventConn{c: c, gen: uint32(c.state.Load() >> genShift), d: l, max: l.max}
	if n := len(l.free); n > 0 {
		e.slot = l.free[n-1]
		l.free = l.free[:n-1]
		l.table[e.slot] = e
	} else {
		e.slot = uint32(len(l.table))
		l.table = append(l.table, e)
	}
	l.conns++
	e.ready = l.firstLook || l.lateEnded
	if e.header = g.s.hasProxies() && g.isProxy(c.sysSource()); e.header || l.admit(e, netip.Addr{}) {
		l.serve(e)
	}
	if e.ready && e.next != flow.Over {
		l.serve(e)
	}
	if e.next == flow.Over {
		return // it is over already
	}
	if err := l.poll.Control(unix.EPOLL_CTL_ADD, c.fd, connEvents, e.slot); err != nil {
		l.finish(e, err)
	}
}

// admit lets a connection in. Its handler is then called for the first time.
func (l *loop) admit(e *EventConn, client netip.Addr) bool {
	if err := l.a.g.checkClient(e.c, client); err != nil {
		l.reject(e, err)
		return false
	}
	e.c.enter(listening)
	e.next = flow.Again
	return true
}

// reject ends a connection that the handler does not get.
func (l *loop) reject(e *EventConn, err error) {
	defer l.remove(e) // also if the program's function panics
	l.a.g.reject(e.c, e.handle(), err)
}

// finish ends a connection, and reports to the program why.
func (l *loop) finish(e *EventConn, err error) {
	if e.late != nil { // which the program knows
		l.remove(e)
		return
	}
	if why := e.c.ended.Load(); why != nil { // what a call returned is a consequence
		err = why.err
	}
	if e.header {
		l.reject(e, headerError(err))
		return
	}
	e.flow.Close()
	if l.hasUnread(e, err) {
		l.linger(e)
	} else {
		defer l.remove(e) // also if OnEnd calls runtime.Goexit
	}
	l.a.g.s.onEnd(e, err)
}

// hasUnread reports whether the client of a connection that the server ends has sent more
// than was used. A close would then be a reset, and the kernel would discard the last answer
// (RFC 1122, section 4.2.2.13). A handler's close pays no system call for the answer: bytes
// that came during its turn are not seen.
func (l *loop) hasUnread(e *EventConn, err error) bool {
	switch {
	case e.c.ended.Load() != nil || e.flow.Ended():
		return false
	case err == nil:
		return e.ready || e.flow.Holds()
	}
	return errors.Is(err, ErrDraining) && rawsock.Readable(e.c.fd)
}

// linger ends sending, and keeps a connection until its client has ended it too, at the
// longest for lastCall. It is not timed out meanwhile, nor counted as cut.
func (l *loop) linger(e *EventConn) {
	e.c.ended.CompareAndSwap(nil, lingering)
	_ = e.c.sysHalfClose(false)
	e.next, e.ready = flow.Partial, true
	l.queue(e)
	h := e.handle()
	e.late = time.AfterFunc(l.a.g.lastCall, func() {
		_ = h.call("end", func(c *conn) error { c.sysShutdown(); return nil })
	})
}

// discard receives once, for nobody.
func (l *loop) discard(e *EventConn) {
	switch n, errno := rawsock.Recv(e.c.fd, l.in, 0); {
	case errno == unix.EAGAIN: // until the next event
	case errno != 0 || n == 0:
		l.remove(e)
	default:
		l.queue(e)
	}
}

// remove gives back what a connection has.
func (l *loop) remove(e *EventConn) {
	c := e.c
	if e.late != nil {
		e.late.Stop()
	}
	l.table[e.slot], l.current = nil, nil
	l.free = append(l.free, e.slot)
	l.conns--
	e.next = flow.Over
	c.readWait.Store(0)
	c.idle.Store(false)
	c.state.Or(closedBit) // it has no handle that is used
	c.drop()
}
