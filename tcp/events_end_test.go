package tcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/tcp/events"
)

// partRead returns lines as onData, and a channel that is closed once a part of a line has been
// read.
func partRead() (onData func(*events.Conn, []byte) int, read <-chan struct{}) {
	done := make(chan struct{})
	var once sync.Once
	return func(c *events.Conn, data []byte) int {
		if len(data) > 0 && !bytes.ContainsRune(data, '\n') {
			once.Do(func() { close(done) })
		}
		return lines(c, data)
	}, done
}

// A server that is ending closes idle connections, and waits for the rest of a request that has begun.
func TestEventsDrain(t *testing.T) {
	var n ends
	onData, read := partRead()
	s := &Server{Driver: &events.Handler{OnData: onData, OnEnd: n.note}, Grace: -1, drainTime: 50 * time.Millisecond}
	at, stop := serve(t, s)
	idle, silent, half := dial(t, at), dial(t, at), dial(t, at)
	_, _ = io.WriteString(idle, "x\n")
	_, _ = io.ReadFull(idle, make([]byte, 2))
	_, _ = io.WriteString(half, "ha")
	eventually(t, "all are there", func() bool { return s.Counters().Conns == 3 })
	<-read
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for _, c := range []net.Conn{idle, silent} {
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
	select {
	case err := <-stopped:
		t.Fatalf("it has not waited for a request: %v", err)
	case <-time.After(10 * time.Millisecond): // if this is too short, the test passes wrongly, but never fails
	}
	_, _ = io.WriteString(half, "lf\n")
	if b, err := io.ReadAll(half); string(b) != "half\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	n.want(t, 3, ErrDraining)
}

// After Server.Grace the server ends the connections whose requests are incomplete, whose answers are
// not read, or that wait for a place.
func TestEventsGrace(t *testing.T) {
	var n ends
	onData, read := partRead()
	s := &Server{Driver: &events.Handler{OnData: onData, OnEnd: n.note}, Grace: time.Millisecond, MaxConns: 2}
	at, stop := serve(t, s)
	half, big := dial(t, at), dial(t, at)
	_, _ = io.WriteString(half, "half")
	_, _ = io.WriteString(big, "big\n")
	_, _ = io.ReadFull(big, make([]byte, 1000))
	dial(t, at) // it waits for a place
	<-read
	if err := stop(); !errors.Is(err, ErrCut) {
		t.Errorf("Serve: %v", err)
	}
	if c := s.Counters(); c.Conns != 0 || c.Cut < 2 {
		t.Errorf("%+v", c)
	}
}

func TestEventsHalt(t *testing.T) {
	var n ends
	s := &Server{Driver: &events.Handler{OnData: lines, OnEnd: n.note}, Grace: -1}
	so := listenSocket(t, Options{})
	result := make(chan error)
	go func() { result <- s.Serve(t.Context(), so) }()
	c := dial(t, so.Addr().String())
	_, _ = io.WriteString(c, "half")
	eventually(t, "accepted", func() bool { return s.Counters().Conns == 1 })
	s.Halt()
	if err := <-result; !errors.Is(err, ErrCut) {
		t.Error(err)
	}
	n.want(t, 1, ErrCut)
	// If only the socket is closed, the server ends once its connections have ended.
	s, so = &Server{Driver: &events.Handler{OnData: lines}}, listenSocket(t, Options{})
	go func() { result <- s.Serve(t.Context(), so) }()
	if got := ask(t, so.Addr().String(), "hello\n"); got != "hello\n" {
		t.Errorf("%q", got)
	}
	_ = so.Close()
	if err := <-result; err != nil {
		t.Error(err)
	}
}
