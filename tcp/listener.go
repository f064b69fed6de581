package tcp

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Listener returns a [Listener] that accepts the connections of sockets, for a server that serves
// them in its own way, such as net/http's:
//
//	l, err := s.Listener(sockets...)
//	...
//	err = httpServer.Serve(l)
//
// The limits and times of s apply to them until they are closed. PROXY headers and TLS handshakes
// are complete when Accept returns a connection. Handle, Driver and Grace are not used. Closing the
// Listener closes the sockets and leaves the connections open: they end in the way of the server
// that has them, such as http.Server.Shutdown, or by Halt. Accept still returns the connections
// that were accepted by then, and then fails.
func (s *Server) Listener(sockets ...*Socket) (*Listener, error) {
	r, err := s.newRun(context.Background(), sockets, nil)
	if err != nil {
		closeAll(sockets)
		return nil, err
	}
	l := &Listener{
		r: r, accepted: make(chan net.Conn), split: make(chan net.Conn),
		closed: make(chan struct{}), given: make(chan struct{}), over: make(chan struct{}),
	}
	r.pending = make(chan struct{}, maxPending)
	r.hand = l.hand
	r.unlisten = func() { _ = l.Close() }
	r.start(&l.helpers, l.over)
	go l.giveAll()
	s.runs.add(r) // from now on Halt finds the run
	return l, nil
}

// maxPending is how many connections of a Listener may wait for Accept. When that many wait, no
// more are taken from the kernel's queue. Connections in a handshake do not count. Otherwise slow
// clients would keep out others.
const maxPending = 1024

// A Listener is a [net.Listener] whose Accept returns the connections of a [Server].
type Listener struct {
	r        *run
	accepted chan net.Conn
	split    chan net.Conn // connections of SplitALPN
	helpers  sync.WaitGroup
	drains   atomic.Bool   // Accept fails only after Close
	closed   chan struct{} // closed by Close
	given    chan struct{} // closed when accepting has ended and Accept has returned all connections
	over     chan struct{} // closed when the last connection has ended
	closing  sync.Once     // for Close
	stopping sync.Once     // for stop
}

// hand passes a connection to a caller of Accept.
func (l *Listener) hand(h *Conn) {
	given := false
	defer l.r.finish(h, &given)
	if nc := l.r.open(h.c, h); nc != nil {
		given = l.offer(nc)
	}
}

// offer offers the connection to callers of Accept, and reports whether one has taken it.
func (l *Listener) offer(nc net.Conn) bool {
	accepted := l.accepted
	if t, ok := nc.(*tls.Conn); ok && l.r.s.SplitALPN != "" && t.ConnectionState().NegotiatedProtocol == l.r.s.SplitALPN {
		accepted = l.split
	}
	l.r.pending <- struct{}{}
	defer func() { <-l.r.pending }()
	select {
	case accepted <- nc:
		return true
	case <-l.r.draining:
	}
	// The client does not know of the end, and may have sent a request.
	select {
	case accepted <- nc:
		return true
	case <-time.After(l.r.Times.Drain):
	case <-l.r.halted:
	}
	return false
}

// giveAll waits until all connections accepted before the end have been handed over.
func (l *Listener) giveAll() {
	<-l.r.left0
	l.r.wait()
	close(l.given)
}

// Accept waits for a connection.
func (l *Listener) Accept() (net.Conn, error) { return l.accept(l.accepted) }

func (l *Listener) accept(from <-chan net.Conn) (net.Conn, error) {
	select {
	case c := <-from:
		return c, nil
	case <-l.given:
		if l.drains.Load() {
			<-l.closed
		}
		l.r.mu.Lock()
		defer l.r.mu.Unlock()
		if l.r.err != nil {
			return nil, l.fail("accept", l.r.err)
		}
		return nil, l.fail("accept", net.ErrClosed)
	}
}

// A splitListener returns the connections of SplitALPN.
type splitListener struct{ *Listener }

// Accept waits for a connection.
func (l splitListener) Accept() (net.Conn, error) { return l.accept(l.split) }

// Split returns a listener for the connections of [Server.SplitALPN]. Closing either
// closes both.
func (l *Listener) Split() net.Listener { return splitListener{l} }

// Close stops listening. Open connections continue.
func (l *Listener) Close() error {
	err := l.fail("close", net.ErrClosed)
	l.closing.Do(func() {
		err = nil
		close(l.closed)
		l.stop()
	})
	return err
}

// Drain stops listening, and returns when the last connection or ctx has ended. Accept does not
// fail before Close, because a server that ends when Accept fails still serves its connections
// until then.
func (l *Listener) Drain(ctx context.Context) {
	l.drains.Store(true)
	l.stop()
	select {
	case <-l.over:
	case <-ctx.Done():
	}
}

// stop ends accepting.
func (l *Listener) stop() {
	l.stopping.Do(func() {
		l.r.cancel(net.ErrClosed) // an acceptor that waits for a place would otherwise keep the run from closing
		l.r.drain()
		<-l.r.left0 // otherwise it would listen a moment longer
		go l.end()
	})
}

// end stops enforcing limits and times once the last connection has ended.
func (l *Listener) end() {
	l.r.wait()
	for {
		if live, _ := l.r.totals(); live == 0 {
			break
		}
		if hasEnded(l.r.halted) {
			l.r.cut()
		}
		time.Sleep(min(l.r.Tick(), endTick))
	}
	close(l.over)
	l.helpers.Wait()
	l.r.finishRun()
}

// endTick is how often end checks whether the last connection has ended.
const endTick = 50 * time.Millisecond

func hasEnded(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Addr returns the address that it listens on. If there are several sockets, it is the address of
// the first.
func (l *Listener) Addr() net.Addr { return l.r.sockets[0].addr }

func (l *Listener) fail(op string, err error) error {
	a := l.Addr()
	return &net.OpError{Op: op, Net: a.Network(), Addr: a, Err: err}
}
