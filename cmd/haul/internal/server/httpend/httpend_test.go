package httpend

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for an event that should be immediate.
const patience = time.Minute

// counted is a server that counts its connections, and its socket.
type counted struct {
	*http.Server
	socket *net.TCPListener
	served chan struct{}
	open   atomic.Int64
}

func serve(socket *net.TCPListener) *counted {
	c := &counted{socket: socket, served: make(chan struct{})}
	c.Server = &http.Server{
		ReadHeaderTimeout: patience,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				c.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				c.open.Add(-1)
			}
		},
	}
	go func() {
		_ = c.Serve(socket)
		close(c.served)
	}()
	return c
}

func (c *counted) finish(grace time.Duration) {
	Finish(c.Server, c.socket, c.served, c.open.Load, grace)
}

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l.(*net.TCPListener)
}

// again returns another listener of the same socket, as a successor gets it.
func again(t *testing.T, l *net.TCPListener) *net.TCPListener {
	t.Helper()
	f, err := l.File()
	if err != nil {
		t.Skipf("a socket cannot be handed over here: %v", err)
	}
	defer f.Close()
	next, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	return next.(*net.TCPListener)
}

// Clients that open a new connection for each request are all answered while servers replace each
// other repeatedly.
func TestFinishLosesNoRequest(t *testing.T) {
	s := serve(listen(t))
	var end atomic.Bool
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
			for !end.Load() && !t.Failed() {
				a, err := c.Get("http://" + s.socket.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				if text, err := io.ReadAll(a.Body); string(text) != "hello" || err != nil {
					t.Errorf("%q, %v", text, err)
				}
				_ = a.Body.Close()
			}
		})
	}
	old := s
	for range 50 {
		next := serve(again(t, old.socket))
		old.finish(patience)
		old = next
	}
	end.Store(true)
	clients.Wait()
	old.finish(patience)
	if n := old.open.Load(); n != 0 {
		t.Errorf("%d connections are open", n)
	}
}

// Idle connections are closed at once. Connections that send nothing are closed after the grace
// period.
func TestFinishEnds(t *testing.T) {
	s := serve(listen(t))
	kept := &http.Client{Transport: new(http.Transport)}
	a, err := kept.Get("http://" + s.socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, a.Body)
	_ = a.Body.Close()
	s.finish(patience)

	s = serve(listen(t))
	silent, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for s.open.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.finish(10 * time.Millisecond)
	if n, err := silent.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came", n)
	}
	s.finish(0) // again
}
