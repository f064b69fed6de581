package tcp

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Listener returns a [Listener] that accepts the connections of sockets. It is for a server that
// serves them in its own way, such as net/http's:
//
//	l, err := s.Listener(sockets...)
//	...
//	err = httpServer.Serve(l)
//
// The limits and timeouts of s apply to the connections until they are closed. Accept returns a
// connection after its PROXY header and its TLS handshake. Handle, Driver and Grace are not used.
// Closing the Listener closes the sockets but leaves the connections open: the server that got them
// from Accept ends them in its own way, such as http.Server.Shutdown, or Halt ends them. Accept
// still returns the connections that were accepted before Close, and then fails.
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
	s.runs.add(r) // from now on Halt ends the run too
	return l, nil
}

// maxPending is how many connections of a Listener may wait for Accept. While that many wait, no
// more are taken from the kernel's queue. Connections in a handshake are not counted, because slow
// clients would then keep out others.
const maxPending = 1024

// A Listener is a [net.Listener] whose Accept returns the connections of a [Server].
type Listener struct {
	r        *run
	accepted chan net.Conn
	split    chan net.Conn // passes connections that negotiated SplitALPN to the Accept of a splitListener
	helpers  sync.WaitGroup
	drains   atomic.Bool   // Drain was called: Accept fails only after Close
	closed   chan struct{} // closed by Close; Accept waits for that after Drain
	given    chan struct{} // closed when Accept will return no more connections: see giveAll
	over     chan struct{} // closed when the last connection has ended
	closing  sync.Once     // makes Close work once
	stopping sync.Once     // makes stop work once
}

// hand prepares a connection and passes it to a caller of Accept.
func (l *Listener) hand(h *Conn) {
	given := false
	defer l.r.finish(h, &given)
	if nc := l.r.open(h.c, h); nc != nil {
		given = l.offer(nc)
	}
}

// offer offers nc to callers of Accept, and reports whether one of them has taken it.
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
	// The client does not know that the server is ending, and may already have sent a request. So
	// wait a little longer.
	select {
	case accepted <- nc:
		return true
	case <-time.After(l.r.Times.Drain):
	case <-l.r.halted:
	}
	return false
}

// giveAll closes the channel given once the run accepts no more connections, and Accept has returned
// each accepted connection or the connection was closed. That does not take long: once the server
// begins to end, offer waits for Accept only for a short time.
func (l *Listener) giveAll() {
	<-l.r.left0
	l.r.wait()
	close(l.given)
}

// Accept waits until a connection is ready for use, with its handshake completed, and returns it.
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

// A splitListener returns only the connections that negotiated SplitALPN.
type splitListener struct{ *Listener }

// Accept waits for a connection that negotiated SplitALPN.
func (l splitListener) Accept() (net.Conn, error) { return l.accept(l.split) }

// Split returns a listener for the connections that negotiated [Server.SplitALPN]. Closing l or
// that listener closes both.
func (l *Listener) Split() net.Listener { return splitListener{l} }

// Close stops listening. Connections that Accept has returned stay open.
func (l *Listener) Close() error {
	err := l.fail("close", net.ErrClosed)
	l.closing.Do(func() {
		err = nil
		close(l.closed)
		l.stop()
	})
	return err
}

// Drain stops listening. It returns when the last connection has ended, or ctx is done. Until Close
// is called, Accept does not fail but waits: a server that exits when Accept fails can thus serve
// its remaining connections first.
func (l *Listener) Drain(ctx context.Context) {
	l.drains.Store(true)
	l.stop()
	select {
	case <-l.over:
	case <-ctx.Done():
	}
}

// stop makes the acceptors stop accepting. Connections that Accept has returned stay open.
func (l *Listener) stop() {
	l.stopping.Do(func() {
		l.r.cancel(net.ErrClosed) // otherwise an acceptor that waits for a place would keep the run from closing
		l.r.drain()
		<-l.r.left0 // otherwise the sockets would still listen for a moment after stop has returned
		go l.end()
	})
}

// end waits until the last connection has ended. Then it stops the goroutines that enforce the
// limits and timeouts.
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

// endTick is the longest interval at which end checks whether the last connection has ended.
const endTick = 50 * time.Millisecond

func hasEnded(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Addr returns the address that l listens on. If there are several sockets, it is the address of
// the first.
func (l *Listener) Addr() net.Addr { return l.r.sockets[0].addr }

func (l *Listener) fail(op string, err error) error {
	a := l.Addr()
	return &net.OpError{Op: op, Net: a.Network(), Addr: a, Err: err}
}
