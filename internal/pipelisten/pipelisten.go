// Package pipelisten is for tests. It provides a listener whose connections are pipes that the test
// makes. Unlike a socket, it also works inside a synctest bubble.
package pipelisten

import (
	"net"
	"sync"
	"testing"
	"time"
)

// A Listener accepts the connections that a test sends to Conns, or makes with Dial.
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

// Dial returns one end of a pipe, and makes the server accept the other end. A pipe has no buffer: a
// write waits until the other side has read the data. Dial closes its end when the test ends. If the
// server hangs, reads and writes fail after an hour, which takes no time in a bubble.
func (l *Listener) Dial(t testing.TB) net.Conn {
	here, there := net.Pipe()
	l.Conns <- there
	t.Cleanup(func() { _ = here.Close() })
	if err := here.SetDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	return here
}
