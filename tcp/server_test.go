package tcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/leak"
)

// hasLoops reports whether package tcp serves this system with its own system calls and loops.
const hasLoops = CanChooseCongestion

func TestMain(m *testing.M) { leak.Main(m, "haul/tcp.") }

// patience is how long a test waits for something that must happen. Only a failing test waits
// this long.
const patience = 30 * time.Second

// serve runs a server until the test ends, or until stop is called, which returns Serve's error.
// The server logs nothing.
func serve(t *testing.T, s *Server, addrs ...string) (addr string, stop func() error) {
	t.Helper()
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if len(addrs) == 0 {
		addrs = []string{"127.0.0.1:0"}
	}
	var sockets []*Socket
	for _, a := range addrs {
		so, err := Listen(t.Context(), a, s.Options)
		if err != nil {
			t.Fatal(err)
		}
		sockets = append(sockets, so)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- s.Serve(ctx, sockets...) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-result:
			return err
		case <-time.After(patience):
			s.Halt()
			t.Error("the server did not end")
			return <-result
		}
	})
	t.Cleanup(func() { _ = stop() })
	return sockets[0].Addr().String(), stop
}

// listenSocket opens a loopback socket.
func listenSocket(t testing.TB, o Options) *Socket {
	t.Helper()
	so, err := Listen(t.Context(), "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	return so
}

// listenFor opens a loopback socket with the server's Listener.
func listenFor(t testing.TB, s *Server) *Listener {
	t.Helper()
	l, err := s.Listener(listenSocket(t, s.Options))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

// ask sends a question, and returns the complete answer.
func ask(t *testing.T, addr, question string) string {
	t.Helper()
	c := dial(t, addr)
	if _, err := io.WriteString(c, question); err != nil {
		t.Fatal(err)
	}
	_ = c.CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("answer to %q: %v", question, err)
	}
	_ = c.Close()
	return string(answer)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func echo(_ context.Context, c net.Conn) { _, _ = io.Copy(c, c) }

func TestEcho(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0", "localhost:0"} {
		for _, n := range []int{0, 1, 3} {
			t.Run(fmt.Sprint(addr, " ", n), func(t *testing.T) {
				s := &Server{Handle: echo, Options: Options{Sockets: n}}
				at, stop := serve(t, s, addr)
				if got := ask(t, at, "hello"); got != "hello" {
					t.Errorf("got %q", got)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
				if c := s.Counters(); c.Accepted != 1 || c.Conns != 0 {
					t.Errorf("%+v", c)
				}
			})
		}
	}
}

// With many connections of all kinds at once, no data of one appears in another, although the
// resources that serve them are reused.
func TestManyAtOnce(t *testing.T) {
	s := &Server{Handle: func(_ context.Context, c net.Conn) {
		var b [64]byte
		for {
			n, err := c.Read(b[:])
			if err != nil {
				return
			}
			if _, err := c.Write(b[:n]); err != nil {
				return
			}
		}
	}}
	at, stop := serve(t, s)
	const clients, rounds = 64, 30
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for j := range rounds {
				c, err := net.Dial("tcp", at)
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				for k := range j % 5 {
					want := fmt.Sprintf("%d %d %d", i, j, k)
					got := make([]byte, len(want))
					_, _ = io.WriteString(c, want)
					if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
						t.Errorf("sent %q, got %q, %v", want, got, err)
					}
				}
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if c := s.Counters(); c.Accepted != clients*rounds || c.Conns != 0 || c.Panics != 0 {
		t.Errorf("%+v", c)
	}
}

// A handler that computes, or waits for something else, does not delay other connections on any
// socket.
func TestBlockedHandlersDelayNoOthers(t *testing.T) {
	release := make(chan struct{})
	s := &Server{Options: Options{Sockets: 1}, Handle: func(_ context.Context, c net.Conn) {
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err != nil || b[0] == 'w' {
			<-release
			return
		}
		_, _ = c.Write(b)
	}}
	at, stop := serve(t, s)
	for range 20 {
		c := dial(t, at)
		_, _ = io.WriteString(c, "w")
		if got := ask(t, at, "x"); got != "x" {
			t.Fatalf("got %q", got)
		}
	}
	close(release)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestPanicsEndOneConnection(t *testing.T) {
	panics := func(b []byte) {
		if string(b) == "panic" {
			panic("on purpose")
		}
	}
	for where, s := range map[string]*Server{
		"Handle": {Handle: func(_ context.Context, c net.Conn) {
			b, _ := io.ReadAll(c)
			panics(b)
			_, _ = c.Write(b)
		}},
		"FirstBytes": {MaxConns: 1, FirstBytes: func(_ *Conn, b []byte) { panics(b) }, Handle: func(_ context.Context, c net.Conn) {
			_, _ = io.Copy(c, onlyReader{c})
		}},
	} {
		t.Run(where, func(t *testing.T) {
			var log bytes.Buffer
			s.Log = slog.New(slog.NewTextHandler(&log, nil))
			at, stop := serve(t, s)
			for range 3 {
				if got := ask(t, at, "panic"); got != "" {
					t.Errorf("got %q", got)
				}
				if got := ask(t, at, "fine"); got != "fine" {
					t.Errorf("got %q", got)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if c := s.Counters(); c.Panics != 3 || c.Accepted != 6 {
				t.Errorf("%+v", c)
			}
			if text := log.String(); strings.Count(text, "on purpose") != 3 || !strings.Contains(text, "server_test.go") {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// If a handler ends its goroutine, its connection ends, and accepting continues.
func TestGoexit(t *testing.T) {
	s := &Server{Options: Options{Sockets: 1}, Handle: func(_ context.Context, c net.Conn) {
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err == nil && b[0] == 'e' {
			runtime.Goexit()
		}
		_, _ = c.Write(b)
	}}
	at, stop := serve(t, s)
	for range 5 {
		if got := ask(t, at, "e"); got != "" {
			t.Errorf("got %q", got)
		}
		if got := ask(t, at, "x"); got != "x" {
			t.Errorf("got %q", got)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := &Server{Handle: echo}
	_, stop := serve(t, s, "unix:"+path)
	try := func() error {
		c, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		defer c.Close()
		_, _ = io.WriteString(c, "hi")
		_ = c.(*net.UnixConn).CloseWrite()
		b, err := io.ReadAll(c)
		if string(b) != "hi" {
			t.Errorf("got %q, %v", b, err)
		}
		return nil
	}
	if err := try(); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path, Options{}); err == nil {
		t.Error("two listen at one path")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the path is left behind: %v", err)
	}
	// A socket left by a dead process is replaced; another kind of file is not.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	so, err := Listen(t.Context(), "unix:"+path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = so.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path, Options{}); err == nil {
		t.Error("a file was replaced by a socket")
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("the file has %q", b)
	}
}

func TestAddressInUse(t *testing.T) {
	so := listenSocket(t, Options{Sockets: 2})
	defer so.Close()
	for _, n := range []int{1, 2} {
		other, err := Listen(t.Context(), so.Addr().String(), Options{Sockets: n})
		if err == nil {
			_ = other.Close()
			t.Errorf("%d sockets share an address that is another's", n)
		} else if !strings.Contains(err.Error(), so.Addr().String()) {
			t.Errorf("the address is not in %q", err)
		}
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	for name, s := range map[string]*Server{
		"no Handle":    {},
		"negative":     {Handle: echo, MaxConns: -1},
		"no time":      {Handle: echo, IdleTimeout: -1},
		"many sockets": {Handle: echo, Options: Options{Sockets: 1000}},
		"soon":         {Handle: echo, Options: Options{ClientFirst: time.Millisecond}},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.ListenAndServe(ctx, "127.0.0.1:0"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := (&Server{Handle: echo}).ListenAndServe(t.Context()); err == nil {
		t.Error("no address: no error")
	}
	if err := (&Server{Handle: echo}).ListenAndServe(t.Context(), "nowhere"); err == nil {
		t.Error("no port: no error")
	}
}

// Large amounts of data are sent in both directions at once, on every path that data can take.
func TestBulkBothWays(t *testing.T) {
	for name, handle := range map[string]func(context.Context, net.Conn){
		"io.Copy": echo,
		"by hand": func(_ context.Context, c net.Conn) { _, _ = io.Copy(onlyWriter{c}, onlyReader{c}) },
		"large": func(_ context.Context, c net.Conn) {
			b := make([]byte, 1<<20)
			for {
				n, err := io.ReadFull(c, b)
				if _, e := c.Write(b[:n]); e != nil || err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, _ := serve(t, &Server{Handle: handle})
			c := dial(t, at)
			data := make([]byte, 5<<20+12345)
			_, _ = rand.Read(data)
			go func() {
				_, _ = c.Write(data)
				_ = c.CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes came back of %d, %v", len(got), len(data), err)
			}
		})
	}
}

// After the end of its connection, a kept handle no longer works.
func TestUseAfterReturn(t *testing.T) {
	var kept atomic.Pointer[Conn]
	s := &Server{Options: Options{Sockets: 1}, Handle: func(_ context.Context, c net.Conn) {
		kept.CompareAndSwap(nil, c.(*Conn))
		echo(context.Background(), c)
	}}
	at, _ := serve(t, s)
	if got := ask(t, at, "first"); got != "first" {
		t.Fatalf("got %q", got)
	}
	eventually(t, "the first ends", func() bool { return s.Counters().Conns == 0 })
	second := dial(t, at)
	_, _ = io.WriteString(second, "x")
	if _, err := io.ReadFull(second, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	old := kept.Load()
	if _, err := old.Write([]byte("for another")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Write: %v", err)
	}
	if _, err := old.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
	_, copied := old.ReadFrom(strings.NewReader("for another"))
	for what, err := range map[string]error{
		"Close": old.Close(), "SetDeadline": old.SetDeadline(time.Now()), "CloseWrite": old.CloseWrite(),
		"WaitReadable": old.WaitReadable(), "SetNoDelay": old.SetNoDelay(true), "ReadFrom": copied,
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if a := old.RemoteAddr(); a == nil || a.String() == second.LocalAddr().String() {
		t.Errorf("RemoteAddr: %v", a)
	}
	_ = second.CloseWrite()
	if rest, err := io.ReadAll(second); len(rest) > 0 || err != nil {
		t.Errorf("the second got %q, %v", rest, err)
	}
}
