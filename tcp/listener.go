package tcp

import (
	"context"
	"net"
	"sync"
	"time"
)

// Listener returns a net.Listener that accepts the connections of sockets, for a
// server that has its own way to serve them, such as net/http's:
//
//	l, err := s.Listener(sockets...)
//	...
//	err = httpServer.Serve(l)
//
// The limits and times of s hold for them until they are closed. PROXY headers and
// TLS handshakes are behind them when they are accepted. Handle and Grace are not
// used. Closing the Listener closes the sockets and disturbs no connection: these end
// in the way of the server that has them, such as http.Server.Shutdown, or by Halt.
// Accept still gives out those that were accepted by then, and then fails.
func (s *Server) Listener(sockets ...*Socket) (net.Listener, error) {
	r, err := s.newRun(context.Background(), sockets)
	if err != nil {
		closeAll(sockets)
		return nil, err
	}
	l := &listener{r: r, accepted: make(chan net.Conn), given: make(chan struct{}), over: make(chan struct{})}
	r.pending = make(chan struct{}, maxPending)
	r.hand = l.hand
	r.unlisten = func() { _ = l.Close() }
	r.start(&l.helpers, l.over)
	go l.giveAll()
	s.enlist(r) // from now on Halt finds it
	return l, nil
}

// maxPending is how many connections of a Listener wait for Accept. At so many no more
// are taken from the kernel's queue. Those that are in a handshake do not count, or
// clients that are slow with it would keep out the others.
const maxPending = 1024

// A listener hands connections to who calls Accept.
type listener struct {
	r        *run
	accepted chan net.Conn
	helpers  sync.WaitGroup
	given    chan struct{} // closed when no more are accepted, and all have been given out
	over     chan struct{} // closed when all is
	once     sync.Once     // of Close
}

// hand gives a connection to who accepts.
func (l *listener) hand(h *Conn) {
	given := false
	defer l.r.finish(h, &given)
	if nc := l.r.open(h.c, h); nc != nil {
		given = l.offer(nc)
	}
}

// offer reports whether a caller has accepted the connection.
func (l *listener) offer(nc net.Conn) bool {
	l.r.pending <- struct{}{}
	defer func() { <-l.r.pending }()
	select {
	case l.accepted <- nc:
		return true
	case <-l.r.draining:
	}
	// Its client does not know of the end, and may have asked for something.
	select {
	case l.accepted <- nc:
		return true
	case <-time.After(l.r.lastCall):
	case <-l.r.halted:
	}
	return false
}

// defaultLastCall is how long an accepted connection waits for a call of Accept once
// the Listener is closed, and for its client to begin a TLS handshake once the server
// ends.
const defaultLastCall = time.Second

// giveAll waits until all connections accepted before the end have been handed over.
func (l *listener) giveAll() {
	<-l.r.left0
	l.r.wait()
	close(l.given)
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.given:
		l.r.mu.Lock()
		defer l.r.mu.Unlock()
		if l.r.err != nil {
			return nil, l.fail("accept", l.r.err)
		}
		return nil, l.fail("accept", net.ErrClosed)
	}
}

// Close stops listening. Open connections continue.
func (l *listener) Close() error {
	err := l.fail("close", net.ErrClosed)
	l.once.Do(func() {
		err = nil
		l.r.cancel(net.ErrClosed) // or an acceptor that waits for a place would keep it from closing
		l.r.drain()
		<-l.r.left0 // or it would listen a moment longer
		go l.end()
	})
	return err
}

// end ends what keeps limits and times, when the last connection has ended.
func (l *listener) end() {
	l.r.wait()
	for {
		if live, _ := l.r.totals(); live == 0 {
			break
		}
		if isClosed(l.r.halted) {
			l.r.cut()
		}
		time.Sleep(min(l.r.tick, endTick))
	}
	close(l.over)
	l.helpers.Wait()
	l.r.finishRun()
}

// endTick is how often it is looked whether the last connection has ended.
const endTick = 50 * time.Millisecond

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Addr returns where it listens: of several sockets, where the first does.
func (l *listener) Addr() net.Addr { return l.r.sockets[0].addr }

func (l *listener) fail(op string, err error) error {
	a := l.Addr()
	return &net.OpError{Op: op, Net: a.Network(), Addr: a, Err: err}
}
