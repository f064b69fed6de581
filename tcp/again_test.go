package tcp

import (
	"errors"
	"net"
	"testing"
)

// If another Serve gets a socket that is already served, it stays open: only the other given
// sockets are closed.
func TestServeTwice(t *testing.T) {
	for name, try := range map[string]func(s *Server, sockets ...*Socket) error{
		"Serve": func(s *Server, sockets ...*Socket) error { return s.Serve(t.Context(), sockets...) },
		"Listener": func(s *Server, sockets ...*Socket) error {
			l, err := s.Listener(sockets...)
			if err == nil {
				_ = l.Close()
			}
			return err
		},
		"no Handle": func(_ *Server, sockets ...*Socket) error { return new(Server).Serve(t.Context(), sockets...) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &Server{Handle: echo}
			at, stop := serve(t, s)
			if got := ask(t, at, "before"); got != "before" {
				t.Fatalf("got %q", got)
			}
			served := s.runs.list()[0].sockets[0]
			other := listenSocket(t, Options{})
			for _, x := range []*Server{s, {Handle: echo}} {
				if err := try(x, other, served); err == nil || errors.Is(err, net.ErrClosed) && x == s {
					t.Errorf("serving it once more: %v", err)
				}
				if got := ask(t, at, "behind"); got != "behind" {
					t.Errorf("got %q", got)
				}
			}
			if err := other.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the other socket is not closed: %v", err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A socket that is given twice is not served, and is closed.
func TestServeOneTwice(t *testing.T) {
	so := listenSocket(t, Options{})
	if err := (&Server{Handle: echo}).Serve(t.Context(), so, so); err == nil {
		t.Error("no error")
	}
	if err := so.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is not closed: %v", err)
	}
}

// A server whose context ended can serve again.
func TestServeAgain(t *testing.T) {
	s := &Server{Handle: echo}
	for range 3 {
		at, stop := serve(t, s)
		if got := ask(t, at, "x"); got != "x" {
			t.Errorf("got %q", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	if n := s.Counters().Accepted; n != 3 {
		t.Errorf("%d accepted", n)
	}
}
