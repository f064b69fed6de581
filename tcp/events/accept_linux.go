//go:build linux && !haul_portable

package events

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/admission"
	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/flow"
	"github.com/haul-project/haul/tcp/internal/rawsock"
)

const (
	// acceptBatch is the largest number of connections that are accepted in a row. After them, the
	// loop first serves the open connections.
	acceptBatch = 64

	// listenSlot is the key of the listening socket in the epoll. Connections have their slot in
	// the table as a key.
	listenSlot = 1<<32 - 1
)

// listen adds the listening socket to the epoll if on is true, and otherwise removes it. It does
// nothing if the socket is already added, or already removed.
func (l *loop) listen(on bool) error {
	if l.listens == on {
		return nil
	}
	// Closing the socket would not remove it from the epoll, because another process may have the
	// socket open too.
	op := unix.EPOLL_CTL_DEL
	if on {
		op = unix.EPOLL_CTL_ADD
	}
	if err := l.poll.Control(op, l.s.FD, unix.EPOLLIN, listenSlot); err != nil {
		return err
	}
	l.listens = on
	return nil
}

// accept accepts connections from the queue, at most acceptBatch of them.
func (l *loop) accept() {
	for range acceptBatch {
		if !l.takePlace() {
			return
		}
		if l.spare == nil {
			l.spare = l.s.Roster.Take()
		}
		fd, errno := rawsock.Accept(l.s.FD, &l.spare.From)
		if errno != 0 {
			l.notAccepted(errno)
			return
		}
		c := l.spare
		c.FD, l.delay = fd, 0
		c.Reset()
		l.s.Accepted()
		if g := l.s.Gate; g.Refuse && !g.Admit(c) || !g.Refuse && !g.CountSource(c) {
			c.Discard()
			continue
		}
		l.spare = nil
		l.open(c)
	}
}

// takePlace takes a place for a connection before it is accepted. If there is no place, takePlace
// returns false, and removes the listening socket from the epoll until a place becomes free.
func (l *loop) takePlace() bool {
	g := l.s.Gate
	if g.Places == nil || g.Refuse {
		return true
	}
	for range 2 {
		select {
		case g.Places <- struct{}{}:
			l.full.Store(false)
			return true
		default:
			// From now on a place that becomes free wakes the loop; try once more, because one may
			// have become free just before.
			l.full.Store(true)
		}
	}
	_ = l.listen(false)
	return false
}

// notAccepted is called when a call of accept has failed with errno. It releases the place that was
// taken for the connection, and decides from errno when to accept again.
func (l *loop) notAccepted(errno syscall.Errno) {
	g := l.s.Gate
	if !g.Refuse {
		g.Left(netip.Addr{})
	}
	if errno == unix.EAGAIN {
		stopped, until := l.s.Stopped()
		if !stopped {
			return
		}
		if wait := time.Until(until); wait > 0 {
			time.AfterFunc(wait, l.Wake)
			return
		}
		l.endAccept(net.ErrClosed)
		return
	}
	switch err := os.NewSyscallError("accept4", errno); {
	case admission.IsOfPeer(err):
	case admission.IsTemporary(err):
		l.delay = g.Failed(err, l.delay)
		_ = l.listen(false)
		time.AfterFunc(l.delay, l.Wake)
	default:
		l.endAccept(err)
	}
}

// endAccept closes the listening socket, so the loop accepts no more connections. The loop still
// serves its open connections.
func (l *loop) endAccept(err error) {
	_ = l.listen(false)
	l.accepts = false
	l.s.End(err)
}

// open enters an accepted connection into the roster, the table and the epoll, and serves it for the
// first time.
func (l *loop) open(c *conns.Conn) {
	g := l.s.Gate
	l.s.Roster.Enter(c)
	c.Awaits()
	e := &Conn{c: c, d: l, max: l.max, make: l.s.NewHandle}
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
	if e.header = g.HasProxies() && g.IsProxy(c.PeerIP()); e.header || l.admit(e, netip.Addr{}) {
		l.serve(e)
	}
	if e.ready && e.next != flow.Over {
		l.serve(e)
	}
	if e.next == flow.Over {
		return // the connection has already ended
	}
	if err := l.poll.Control(unix.EPOLL_CTL_ADD, c.FD, connEvents, e.slot); err != nil {
		l.finish(e, err)
	}
}
