//go:build linux && !haul_portable

package tcp

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/events"
)

// echoEvents answers with the data that it gets.
func echoEvents(c *events.Conn, data []byte) int {
	_, _ = c.Write(data)
	return len(data)
}

// On a loop a request allocates nothing, and a connection only its EventConn.
func TestEventsAllocations(t *testing.T) {
	s := &Server{Options: Options{Sockets: 1}, Driver: &events.Handler{OnData: func(c *events.Conn, data []byte) int {
		if len(data) > 0 && data[0] == 1 {
			c.Close()
		}
		return echoEvents(c, data)
	}}}
	at, _ := serve(t, s)
	c := newBare(t, at)
	c.connect(t)
	if n := testing.AllocsPerRun(300, func() { c.ask(t) }); n != 0 {
		t.Errorf("a request allocates %v times", n)
	}
	c.close()
	c.b[0] = 1
	if n := testing.AllocsPerRun(300, func() {
		c.connect(t)
		if _, err := unix.Write(c.fd, c.b[:]); err != nil {
			t.Fatal(err)
		}
		for {
			if n, err := unix.Read(c.fd, c.b[1:]); n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		c.close()
	}); n > 1 {
		t.Errorf("a connection allocates %v times", n)
	}
}

// An idle connection uses less than a kilobyte of the process: heap and stacks.
func TestEventsIdleMemory(t *testing.T) {
	const conns, most = 2000, 1024 // bytes for each
	s := &Server{Driver: &events.Handler{OnData: echoEvents}}
	at, _ := serve(t, s)
	memory := func() uint64 {
		runtime.GC()
		runtime.GC() // frees what pools have kept, too
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	clients := make([]*bare, 0, conns)
	for range conns {
		clients = append(clients, newBare(t, at))
	}
	before, goroutines := memory(), runtime.NumGoroutine()
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for i, c := range clients {
		c.connect(t)
		c.b[5] = byte(i)
		sent := c.b
		if c.ask(t); !bytes.Equal(c.b[:], sent[:]) {
			t.Fatalf("client %d gets another's answer", i)
		}
	}
	if n := s.Counters().Conns; n != conns {
		t.Fatalf("%d connections", n)
	}
	if each := (int64(memory()) - int64(before)) / conns; each > most {
		t.Errorf("an idle connection takes %d bytes", each)
	} else {
		t.Logf("an idle connection takes %d bytes", each)
	}
	if n := runtime.NumGoroutine() - goroutines; n > 2 {
		t.Errorf("%d goroutines for %d connections", n, conns)
	}
}

// A loop keeps nothing of ended connections.
func TestEventsKeptAfterEnd(t *testing.T) {
	var mu sync.Mutex
	var all []weak.Pointer[events.Conn]
	s := &Server{Options: Options{Sockets: 1}, Driver: &events.Handler{OnData: func(c *events.Conn, data []byte) int {
		if c.State == nil {
			c.State = true
			c.Again() // in the next round, so that it is in the lists
			mu.Lock()
			all = append(all, weak.Make(c))
			mu.Unlock()
		}
		return echoEvents(c, data)
	}}}
	at, _ := serve(t, s)
	for range 10 {
		if got := ask(t, at, "hello"); got != "hello" {
			t.Fatalf("%q", got)
		}
	}
	eventually(t, "none is kept", func() bool {
		runtime.GC()
		mu.Lock()
		defer mu.Unlock()
		return !slices.ContainsFunc(all, func(c weak.Pointer[events.Conn]) bool { return c.Value() != nil })
	})
}

// Urgent data (TCP_URG) ends a receive early, and hides nothing after it.
func TestEventsUrgent(t *testing.T) {
	s := &Server{Driver: &events.Handler{OnData: echoEvents}}
	at, _ := serve(t, s)
	c := newBare(t, at)
	c.connect(t)
	defer c.close()
	for range 20 {
		if err := unix.Sendto(c.fd, []byte("ab!"), unix.MSG_OOB, nil); err != nil {
			t.Fatal(err)
		}
		want := []byte("abcd")
		if _, err := unix.Write(c.fd, []byte("cd")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 0, 8)
		for len(got) < len(want) {
			n, err := unix.Read(c.fd, got[len(got):cap(got)])
			if err != nil && !errors.Is(err, unix.EINTR) || n == 0 {
				t.Fatal(n, err)
			}
			got = got[:len(got)+max(n, 0)]
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

// With TCP_DEFER_ACCEPT the request is read before the connection is added to the epoll.
func TestEventsClientFirst(t *testing.T) {
	s := &Server{Driver: &events.Handler{OnData: lines}, Options: Options{ClientFirst: 5e9}}
	at, stop := serve(t, s)
	for range 20 {
		if got := ask(t, at, "hello\nquit\n"); got != "hello\nbye\n" {
			t.Fatalf("%q", got)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A loop that is never idle can still end its other connections. The handler of one client always
// calls Again, and other clients send requests before they have received their last answers. All
// connections except the first one end, with complete answers.
func TestEventsDrainBusy(t *testing.T) {
	var spins, over atomic.Bool
	const pipelines, line = 4, "a request\n"
	h := &events.Handler{}
	s := &Server{Driver: h, Grace: -1, drainTime: 50 * time.Millisecond, Options: Options{Sockets: 1}}
	h.OnData = func(c *events.Conn, data []byte) int {
		if string(data) == "spin\n" && !over.Load() {
			spins.Store(true)
			c.Again()
			return 0
		}
		return lines(c, data)
	}
	at, stop := serve(t, s)
	spin, idle, silent := dial(t, at), dial(t, at), dial(t, at)
	_, _ = io.WriteString(idle, line)
	_, _ = io.ReadFull(idle, make([]byte, len(line)))
	_, _ = io.WriteString(spin, "spin\n")
	eventually(t, "it spins", spins.Load)
	var ended, began sync.WaitGroup
	for range pipelines {
		c := dial(t, at)
		began.Add(1)
		ended.Go(func() {
			_, _ = io.WriteString(c, strings.Repeat(line, 4))
			b := make([]byte, len(line))
			answers := 0
			n, err := io.ReadFull(c, b)
			for ; err == nil && string(b) == line; n, err = io.ReadFull(c, b) {
				_, _ = io.WriteString(c, line)
				if answers++; answers == 10 {
					began.Done()
				}
			}
			if n > 0 || answers < 10 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %d answers: %q, %v", answers, b[:n], err)
			}
			if answers < 10 {
				began.Done()
			}
		})
	}
	began.Wait()
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	ended.Wait()
	if b, err := io.ReadAll(idle); len(b) > 0 || err != nil {
		t.Errorf("an idle client: %q, %v", b, err)
	}
	if b, err := io.ReadAll(silent); len(b) > 0 || err != nil {
		t.Errorf("a silent client: %q, %v", b, err)
	}
	over.Store(true)
	if b, err := io.ReadAll(spin); string(b) != "spin\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A request that has waited for a place until the last call is over is answered.
func TestEventsDrainPlace(t *testing.T) {
	s := &Server{Driver: &events.Handler{OnData: lines}, Grace: -1, drainTime: time.Millisecond, MaxConns: 1, Options: Options{Sockets: 1}}
	at, stop := serve(t, s)
	silent := dial(t, at)
	eventually(t, "it is accepted", func() bool { return s.Counters().Conns == 1 })
	waits := dial(t, at)
	_, _ = io.WriteString(waits, "hello\n")
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	if b, err := io.ReadAll(silent); len(b) > 0 || err != nil { // it is closed after the last call
		t.Errorf("%q, %v", b, err)
	}
	if b, err := io.ReadAll(waits); string(b) != "hello\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A client that sends more than the handler uses gets the last answer and an orderly end, not a
// reset. It occupies the connection for at most drainTime.
func TestEventsLinger(t *testing.T) {
	var n ends
	s := &Server{Driver: &events.Handler{OnData: lines, OnEnd: n.note, MaxHeld: 8 << 20}, drainTime: 50 * time.Millisecond}
	at, _ := serve(t, s)
	stays := dial(t, at)
	for _, unused := range []int{1, 4 << 20} {
		c := dial(t, at)
		if _, err := c.Write(append([]byte("quit\n"), make([]byte, unused)...)); err != nil {
			t.Errorf("%d bytes more: %v", unused, err)
		}
		if b, err := io.ReadAll(c); string(b) != "bye\n" || err != nil {
			t.Errorf("%d bytes more: %q, %v", unused, b, err)
		}
		_ = c.Close()
	}
	_, _ = stays.Write([]byte("quit\nmore"))
	eventually(t, "the connections end", func() bool { return s.Counters().Conns == 0 })
	n.want(t, 3, nil)
	if cut := s.Counters().Cut; cut != 0 {
		t.Errorf("%d connections count as cut", cut)
	}
}

// A request that arrives during the last answer of an ending server does not reset that answer.
func TestEventsDrainLinger(t *testing.T) {
	var n ends
	called, sent := make(chan bool), make(chan bool)
	h := &events.Handler{OnEnd: n.note}
	s := &Server{Driver: h, Grace: -1, Options: Options{Sockets: 1}}
	h.OnData = func(c *events.Conn, data []byte) int {
		if string(data) == "half\n" {
			called <- true
			<-sent
		}
		return lines(c, data)
	}
	at, stop := serve(t, s)
	idle, half := dial(t, at), dial(t, at)
	_, _ = io.WriteString(half, "x\nha")
	_, _ = io.ReadFull(half, make([]byte, 2))
	_, _ = io.WriteString(idle, "x\n")
	_, _ = io.ReadFull(idle, make([]byte, 2))
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	_, _ = io.ReadAll(idle) // the loop has begun to end
	_, _ = io.WriteString(half, "lf\n")
	<-called
	_, _ = io.WriteString(half, "more\n")
	close(sent)
	if b, err := io.ReadAll(half); string(b) != "half\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	_ = half.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	n.want(t, 2, ErrDraining)
}

// For the program, a lingering connection is over: it does not time out, is not counted as cut when
// the server ends, and does not delay the server. Its timer ends with it.
func TestEventsLingerCounts(t *testing.T) {
	var n ends
	first := make(chan weak.Pointer[events.Conn], 2)
	h := &events.Handler{OnData: lines}
	s := &Server{Driver: h, IdleTimeout: time.Hour, Grace: time.Millisecond, drainTime: time.Hour, Options: Options{Sockets: 1}}
	h.OnEnd = func(c *events.Conn, err error) {
		n.note(c, err)
		first <- weak.Make(c)
	}
	at, stop := serve(t, s)
	quit := func() io.Closer {
		c := dial(t, at)
		_, _ = io.WriteString(c, "quit\nmore")
		if b, err := io.ReadAll(c); string(b) != "bye\n" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		return c
	}
	_ = quit().Close()
	eventually(t, "the connection ends", func() bool { return s.Counters().Conns == 0 })
	c := <-first
	eventually(t, "no timer keeps it", func() bool { runtime.GC(); return c.Value() == nil })
	quit()
	s.runs.list()[0].acceptors[0].roster.Expire(1 << 40) // long after each timeout
	if err := stop(); err != nil {
		t.Error(err)
	}
	if c := s.Counters(); c.Conns != 0 || c.TimedOut != 0 || c.Cut != 0 {
		t.Errorf("%+v", c)
	}
	n.want(t, 2, nil)
}
