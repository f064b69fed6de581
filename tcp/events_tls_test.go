package tcp

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/certs"

	"github.com/haul-project/haul/tcp/events"
)

// With TLS each connection has a goroutine, and the results are the same.
func TestEventsTLS(t *testing.T) {
	var n ends
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Driver: &events.Handler{OnData: lines, OnEnd: n.note}, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Grace: -1}
	at, stop := serve(t, s)
	clients := make([]*tls.Conn, 3)
	for i := range clients {
		c := tls.Client(dial(t, at), &tls.Config{InsecureSkipVerify: true})
		clients[i] = c
		_, _ = io.WriteString(c, "one\ntwo\nth")
		_, _ = io.WriteString(c, "ree\n")
		b := make([]byte, 14)
		if _, err := io.ReadFull(c, b); string(b) != "one\ntwo\nthree\n" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
	}
	_ = clients[0].CloseWrite()
	if b, err := io.ReadAll(clients[0]); len(b) > 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	_, _ = io.WriteString(clients[1], "quit\n")
	if b, err := io.ReadAll(clients[1]); string(b) != "bye\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	eventually(t, "two have ended", func() bool { return s.Counters().Conns == 1 })
	if err := stop(); err != nil { // the idle connection does not delay it
		t.Error(err)
	}
	if b, err := io.ReadAll(clients[2]); len(b) > 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// Two requests, each in its own TLS record, arrive at once, and the server begins to end while it
// handles the first one. TLS has already read the second request, which is answered too.
func TestEventsTLSDrain(t *testing.T) {
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan bool, 2)
	s := &Server{Grace: -1, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Driver: &events.Handler{OnData: func(c *events.Conn, data []byte) int {
		if len(data) > 0 {
			begun <- true
			for !c.Draining() {
				time.Sleep(time.Millisecond)
			}
		}
		return lines(c, data)
	}}}
	at, stop := serve(t, s)
	below := &gathering{Conn: dial(t, at)}
	c := tls.Client(below, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	below.gathers = true
	_, _ = io.WriteString(c, "one\n")
	_, _ = io.WriteString(c, "two\n")
	_, _ = below.Conn.Write(below.b)
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if b, err := io.ReadAll(c); string(b) != "one\ntwo\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A gathering collects the data written to it once gathers is set.
type gathering struct {
	net.Conn
	gathers bool
	b       []byte
}

func (g *gathering) Write(b []byte) (int, error) {
	if !g.gathers {
		return g.Conn.Write(b)
	}
	g.b = append(g.b, b...)
	return len(b), nil
}
