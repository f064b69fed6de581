package tcp

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// Halt applies to a Serve that begins at the same time, in either order, and to later ones.
func TestHaltBeforeServe(t *testing.T) {
	for _, late := range []bool{false, true} {
		s := &Server{Handle: echo}
		so := listenSocket(t, Options{})
		result := make(chan error, 1)
		serve := func() { result <- s.Serve(context.Background(), so) }
		if !late {
			go serve()
		}
		s.Halt()
		if late {
			go serve()
		}
		select {
		case err := <-result:
			if err != nil && !errors.Is(err, net.ErrClosed) || late && err == nil {
				t.Errorf("late %t: %v", late, err)
			}
		case <-time.After(patience):
			t.Fatal("Serve continues after Halt")
		}
		if err := so.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("the socket is not closed: %v", err)
		}
		if err := s.ListenAndServe(t.Context(), "127.0.0.1:0"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("ListenAndServe: %v", err)
		}
		if _, err := s.Listener(listenSocket(t, Options{})); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Listener: %v", err)
		}
	}
}

// Halt also ends a run between the moments when it is made and when it is registered.
func TestHaltInBetween(t *testing.T) {
	s := &Server{Handle: echo}
	so := listenSocket(t, Options{})
	r, err := s.newRun(t.Context(), []*Socket{so}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Halt()
	s.runs.add(r)
	result := make(chan error, 1)
	go func() { result <- r.serveUntil(context.Background()) }()
	select {
	case err := <-result:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it serves behind Halt")
	}
}
