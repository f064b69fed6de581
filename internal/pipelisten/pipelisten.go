// Package pipelisten is for tests. It has a listener whose connections tests make, also
// inside a synctest bubble.
package pipelisten

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Listener accepts the connections that it is given by Conns or Dial.
type Listener struct {
	Conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// New returns a Listener.
func New() *Listener {
	return &Listener{Conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.Conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *Listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.TCPAddr{} }

// Dial returns one end of a pipe, and has the server accept the other. A pipe holds
// nothing: what is not read cannot be written. The test closes its end. If the server
// hangs, an hour ends the test: in a bubble that takes no time.
func (l *Listener) Dial(t testing.TB) net.Conn {
	here, there := net.Pipe()
	l.Conns <- there
	t.Cleanup(func() { _ = here.Close() })
	if err := here.SetDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	return here
}
