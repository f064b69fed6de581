//go:build linux && !haul_portable

package tcp

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// echoEvents answers what it gets.
func echoEvents(c *EventConn, data []byte) int {
	_, _ = c.Write(data)
	return len(data)
}

// A request allocates nothing on a loop, and a connection only its EventConn.
func TestEventsAllocations(t *testing.T) {
	s := &Server{Options: Options{Sockets: 1}, OnData: func(c *EventConn, data []byte) int {
		if len(data) > 0 && data[0] == 1 {
			c.Close()
		}
		return echoEvents(c, data)
	}}
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

// An idle connection takes less than a kilobyte of the process: heap and stacks.
func TestEventsIdleMemory(t *testing.T) {
	const conns, most = 2000, 1024 // bytes each
	s := &Server{OnData: echoEvents}
	at, _ := serve(t, s)
	memory := func() uint64 {
		runtime.GC()
		runtime.GC() // and what pools have kept
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

// Urgent data (TCP_URG) cuts a receive short, and hides nothing that follows it.
func TestEventsUrgent(t *testing.T) {
	s := &Server{OnData: echoEvents}
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

// With TCP_DEFER_ACCEPT the request is read before the connection enters the epoll.
func TestEventsClientFirst(t *testing.T) {
	s := &Server{OnData: lines, Options: Options{ClientFirst: 5e9}}
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
