package tcp

import (
	"context"
	"io"
	"net"
	"testing"
)

// peerCrowd connects n clients to a server whose connections end when their client sends
// something, and returns them by address.
func peerCrowd(t *testing.T, n int) (s *Server, at string, clients map[string]*net.TCPConn) {
	t.Helper()
	s = &Server{Options: Options{Sockets: 1}, Handle: func(_ context.Context, c net.Conn) { _, _ = c.Read(make([]byte, 1)) }}
	at, _ = serve(t, s)
	clients = map[string]*net.TCPConn{}
	for range n {
		c := dial(t, at)
		clients[c.LocalAddr().String()] = c
	}
	eventually(t, "all are accepted", func() bool { return s.Counters().Conns == n })
	return s, at, clients
}

// seesEnd makes the server end a client's connection, and reports whether the client sees that.
func seesEnd(c *net.TCPConn) bool {
	_, _ = io.WriteString(c, "x")
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF
}

// All connections are listed, each once, even if new ones keep arriving.
func TestPeersListsAll(t *testing.T) {
	for _, n := range []int{0, 1, 20} {
		s, at, clients := peerCrowd(t, n)
		seen := map[string]int{}
		for p := range s.Peers() {
			seen[p.Remote.String()]++
			if p.Local.String() != at {
				t.Errorf("one is connected to %v", p.Local)
			}
			if len(seen) > n {
				break
			}
			before := s.Counters().Accepted
			dial(t, at)
			eventually(t, "one more is accepted", func() bool { return s.Counters().Accepted > before })
		}
		if len(seen) != n {
			t.Errorf("%d of %d are listed", len(seen), n)
		}
		for a, times := range seen {
			if times != 1 || clients[a] == nil {
				t.Errorf("%s is listed %d times", a, times)
			}
		}
	}
}

// The body of a loop keeps no connection open, neither the current one nor later ones.
func TestPeersKeepsNothingOpen(t *testing.T) {
	s, _, clients := peerCrowd(t, 20)
	for range s.Peers() {
		for a, c := range clients { // all of them, during the first iteration
			if !seesEnd(c) {
				t.Fatalf("%s does not see its end", a)
			}
			delete(clients, a)
		}
		eventually(t, "all have ended", func() bool { return s.Counters().Conns == 0 })
	}
}
