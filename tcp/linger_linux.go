//go:build linux && !haul_portable

package tcp

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/flow"
	"github.com/haul-project/haul/tcp/internal/rawsock"
)

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
