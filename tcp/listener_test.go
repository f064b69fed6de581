package tcp

import (
	"errors"
	"net"
	"testing"
	"time"
)

// Connections accepted before a Listener was closed are still handed over: their
// requests may be on their way.
func TestListenerGivesAll(t *testing.T) {
	s := &Server{}
	socket, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listener(socket)
	if err != nil {
		t.Fatal(err)
	}
	const clients = 20
	for range clients {
		dial(t, socket.Addr().String())
	}
	eventually(t, "accepted", func() bool { return s.Counters().Accepted == clients })
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for i := range clients {
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("after %d of %d connections: %v", i, clients, err)
		}
		_ = c.Close()
	}
	for range 2 {
		if c, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v, %v; want that it is closed", c, err)
		}
	}
}

// A program that never calls Accept again keeps no connection for ever.
func TestListenerLeft(t *testing.T) {
	s := &Server{}
	socket, err := Listen(t.Context(), "127.0.0.1:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listener(socket)
	if err != nil {
		t.Fatal(err)
	}
	dial(t, socket.Addr().String())
	eventually(t, "accepted", func() bool { return s.Counters().Accepted == 1 })
	_ = l.Close()
	eventually(t, "let go", func() bool { return s.Counters().Conns == 0 })
}

// A Listener closes although an acceptor waits for a place, and all are taken.
func TestListenerClosesWhenFull(t *testing.T) {
	s := &Server{MaxConns: 1}
	socket, err := Listen(t.Context(), "127.0.0.1:0", Options{Sockets: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listener(socket)
	if err != nil {
		t.Fatal(err)
	}
	dial(t, socket.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dial(t, socket.Addr().String())
	eventually(t, "the second waits", func() bool { return s.places.waiting.Load() == 1 })
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not close")
	}
}
