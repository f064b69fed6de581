package tcp

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A server that ends waits for its last handler, and then returns at once.
func TestDrainWaitsForHandlers(t *testing.T) {
	release := make(chan struct{})
	var over atomic.Bool
	s := &Server{Grace: -1, Handle: func(ctx context.Context, c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		<-Draining(ctx)
		<-release
		if ctx.Err() != nil {
			t.Error("the context has ended before the grace")
		}
		_, _ = io.WriteString(c, "whole")
		over.Store(true)
	}}
	at, stop := serve(t, s)
	c := dial(t, at)
	_, _ = io.WriteString(c, "x")
	eventually(t, "accepted", func() bool { return s.Counters().Conns == 1 })
	stopped := make(chan error)
	go func() { stopped <- stop() }()
	eventually(t, "it listens no more", func() bool {
		c, err := net.DialTimeout("tcp", at, patience)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("it ended before its handler: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if b, err := io.ReadAll(c); string(b) != "whole" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-stopped; err != nil || !over.Load() {
		t.Errorf("Serve: %v", err)
	}
}

func TestGraceEnds(t *testing.T) {
	s := &Server{Grace: time.Millisecond, Handle: func(ctx context.Context, c net.Conn) {
		_, err := io.ReadAll(c)
		if !errors.Is(err, ErrCut) {
			t.Errorf("Read: %v", err)
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, ErrCut) {
			t.Errorf("cause: %v", cause)
		}
	}}
	at, stop := serve(t, s)
	for range 3 {
		dial(t, at)
	}
	eventually(t, "accepted", func() bool { return s.Counters().Conns == 3 })
	if err := stop(); !errors.Is(err, ErrCut) {
		t.Errorf("Serve: %v", err)
	}
	if c := s.Counters(); c.Cut != 3 || c.Conns != 0 {
		t.Errorf("%+v", c)
	}
}

// Halt ends running servers, and those that drain without a time limit.
func TestHalt(t *testing.T) {
	for _, draining := range []bool{false, true} {
		s := &Server{Grace: -1, Handle: echo}
		so := listenSocket(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		result := make(chan error)
		go func() { result <- s.Serve(ctx, so) }()
		dial(t, so.Addr().String())
		eventually(t, "accepted", func() bool { return s.Counters().Conns == 1 })
		if draining {
			cancel()
			select {
			case err := <-result:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(10 * time.Millisecond):
			}
		}
		s.Halt()
		if err := <-result; !errors.Is(err, ErrCut) {
			t.Errorf("draining %t: %v", draining, err)
		}
	}
}

// Idle connections do not delay the end, and a request that has arrived is served.
func TestDrainOfIdleConnections(t *testing.T) {
	served := make(chan struct{}, 1)
	s := &Server{Grace: -1, Handle: func(ctx context.Context, c net.Conn) {
		b := make([]byte, 1)
		for {
			if err := c.(*Conn).WaitReadable(); err != nil {
				if !errors.Is(err, ErrDraining) {
					t.Errorf("WaitReadable: %v", err)
				}
				return
			}
			if _, err := c.Read(b); err != nil {
				return
			}
			if b[0] == 'w' {
				served <- struct{}{}
				<-Draining(ctx)
			}
			_, _ = c.Write(b)
		}
	}}
	at, stop := serve(t, s)
	var idle []net.Conn
	for range 20 {
		c := dial(t, at)
		_, _ = io.WriteString(c, "x")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	busy := dial(t, at)
	_, _ = io.WriteString(busy, "wx") // the second one has arrived when the first is answered
	<-served
	if err := stop(); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(busy); string(b) != "wx" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	for _, c := range idle {
		if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// Clients that were connected when the server began to end get an answer: none of them is reset in
// the queue. The fast path accepts them.
func TestDrainServesAll(t *testing.T) {
	if !hasLoops {
		t.Skip("closing a listener of package net resets who waits in its queue")
	}
	for round := range 5 {
		s := &Server{Grace: -1, Handle: func(_ context.Context, c net.Conn) {
			b := make([]byte, 1)
			if _, err := io.ReadFull(c, b); err == nil {
				_, _ = c.Write(b)
			}
		}}
		at, stop := serve(t, s)
		var clients sync.WaitGroup
		var answered, refused, lost atomic.Int64
		begin := make(chan struct{})
		for range 32 {
			clients.Go(func() {
				<-begin
				for {
					c, err := net.DialTimeout("tcp", at, 200*time.Millisecond)
					if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
						continue // the machine is busy
					}
					if err != nil {
						refused.Add(1)
						return
					}
					_ = c.SetDeadline(time.Now().Add(patience))
					b := []byte("x")
					if _, err = c.Write(b); err == nil {
						_, err = io.ReadFull(c, b)
					}
					if err != nil {
						lost.Add(1)
						t.Errorf("round %d: %v", round, err)
					} else {
						answered.Add(1)
					}
					_ = c.Close()
				}
			})
		}
		close(begin)
		eventually(t, "some are answered", func() bool { return answered.Load() > 200 })
		if err := stop(); err != nil {
			t.Error(err)
		}
		clients.Wait()
		t.Logf("%d answered, %d refused, %d lost", answered.Load(), refused.Load(), lost.Load())
	}
}

// A closed socket is no longer served, and the server ends when no socket is left.
func TestCloseOfASocketWhileServing(t *testing.T) {
	one := listenSocket(t, Options{})
	two := listenSocket(t, Options{})
	s := &Server{Handle: echo}
	result := make(chan error, 1)
	go func() { result <- s.Serve(context.Background(), one, two) }()
	if got := ask(t, one.Addr().String(), "a"); got != "a" {
		t.Errorf("got %q", got)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if got := ask(t, two.Addr().String(), "b"); got != "b" {
		t.Errorf("got %q", got)
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; err != nil {
		t.Error(err)
	}
	if err := s.Serve(context.Background(), one); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve of a closed socket: %v", err)
	}
}

// The next process continues with the same sockets, without an effect on clients.
func TestHandOver(t *testing.T) {
	answer := func(word string) *Server {
		return &Server{Handle: func(_ context.Context, c net.Conn) {
			if _, err := io.ReadFull(c, make([]byte, 1)); err == nil {
				_, _ = io.WriteString(c, word)
			}
		}}
	}
	so := listenSocket(t, Options{Sockets: 2})
	at := so.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 2)
	go func() { result <- answer("old").Serve(ctx, so) }()

	over := make(chan struct{})
	var clients sync.WaitGroup
	var olds, news atomic.Int64
	for range 8 {
		clients.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				c, err := net.Dial("tcp", at)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				_, _ = io.WriteString(c, "x")
				b, err := io.ReadAll(c)
				switch {
				case err != nil:
					t.Error(err)
				case string(b) == "old":
					olds.Add(1)
				case string(b) == "new":
					news.Add(1)
				default:
					t.Errorf("got %q", b)
				}
				_ = c.Close()
			}
		})
	}
	eventually(t, "the old one answers", func() bool { return olds.Load() > 50 })
	files, err := so.Files()
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := FromFiles(files, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		_ = f.Close()
	}
	if len(sockets) != 1 || sockets[0].Addr().String() != at {
		t.Errorf("%d sockets came of one, the first on %v", len(sockets), sockets[0].Addr())
	}
	next, end := context.WithCancel(t.Context())
	defer end()
	go func() { result <- answer("new").Serve(next, sockets...) }()
	cancel()
	if err := <-result; err != nil {
		t.Error(err)
	}
	before := news.Load()
	eventually(t, "the new one answers", func() bool { return news.Load() > before+100 })
	close(over)
	clients.Wait()
	end()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestFromFileRefuses(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.UDPConn).File()
	if err != nil {
		t.Skip("no files of sockets here")
	}
	defer f.Close()
	if s, err := fromFile(f, Options{}); err == nil {
		_ = s.Close()
		t.Error("a datagram socket was taken")
	}
}

// The number of idle workers is bounded, and after a while they exit.
func TestWorkersAreLetGo(t *testing.T) {
	s := &Server{Options: Options{Sockets: 1}, Handle: echo}
	at, _ := serve(t, s)
	var clients []net.Conn
	for range maxIdle + 50 {
		clients = append(clients, dial(t, at))
	}
	eventually(t, "all are accepted", func() bool { return s.Counters().Conns == len(clients) })
	for _, c := range clients {
		_ = c.Close()
	}
	eventually(t, "all have ended", func() bool { return s.Counters().Conns == 0 })
	a := s.runs.list()[0].acceptors[0]
	idle := func() int {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.idle)
	}
	if n := idle(); n > maxIdle {
		t.Errorf("%d workers are idle", n)
	}
	for range 12 {
		a.trim()
	}
	if n := idle(); n > 0 {
		t.Errorf("%d workers are idle", n)
	}
	if got := ask(t, at, "x"); got != "x" {
		t.Errorf("got %q", got)
	}
}

// If another process, such as systemd, has a copy of a socket, the socket still works after the server
// has ended, even if the server was killed.
func TestFromFileAgain(t *testing.T) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // like the sockets of systemd; the kernel has no filters for MPTCP sockets
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Skip("no files of sockets here")
	}
	defer f.Close()
	for i := range 3 {
		socket, err := fromFile(f, Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- (&Server{Handle: echo}).Serve(ctx, socket) }()
		if got := ask(t, l.Addr().String(), "hello"); got != "hello" {
			t.Errorf("%d: got %q", i, got)
		}
		end()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if i == 1 && hasLoops { // leave the socket as a killed server does
			k, err := fromFile(f, Options{})
			if err != nil {
				t.Fatal(err)
			}
			k.kernels[0].stop(false)
		}
	}
}

// Requests that arrive while the server is ending are read completely: only calls that wait for
// requests are woken.
func TestNudgesOnlyWaiters(t *testing.T) {
	const clients = 100
	for round := range 10 {
		s := &Server{Grace: patience, Handle: func(_ context.Context, c net.Conn) {
			h := c.(*Conn)
			if err := h.WaitReadable(); err != nil {
				return // the client has sent nothing so far
			}
			var b [2]byte
			if _, err := io.ReadFull(c, b[:]); err != nil {
				t.Errorf("round %d: after WaitReadable: %v", round, err)
			}
		}}
		at, stop := serve(t, s)
		var all sync.WaitGroup
		var conns []net.Conn
		for range clients {
			conns = append(conns, dial(t, at))
		}
		eventually(t, "all are served", func() bool { return s.Counters().Conns == clients })
		for _, c := range conns {
			all.Go(func() {
				_, _ = io.WriteString(c, "a")
				for !isDrained(s) {
					time.Sleep(time.Millisecond)
				}
				time.Sleep(5 * time.Millisecond) // so that the nudge happens, otherwise the fault would not show
				_, _ = io.WriteString(c, "b")
			})
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		all.Wait()
	}
}

// isDrained reports whether all runs of a server have begun to end.
func isDrained(s *Server) bool {
	for _, r := range s.runs.list() {
		if !r.Draining() {
			return false
		}
	}
	return true
}
