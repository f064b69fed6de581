package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// pair returns both ends of a connection, ours first.
func pair(t *testing.T, o Options) (ours *Conn, theirs *net.TCPConn) {
	t.Helper()
	return pairOf(t, &Server{}, o)
}

// pairOf returns both ends of a connection to a server.
func pairOf(t *testing.T, s *Server, o Options) (ours *Conn, theirs *net.TCPConn) {
	t.Helper()
	s.Options = o
	l := listenFor(t, s)
	t.Cleanup(func() { _ = l.Close() })
	theirs = dial(t, l.Addr().String())
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*Conn), theirs
}

// A connection behaves like a net.Conn: it passes the tests of golang.org/x/net/nettest.
func TestIsANetConn(t *testing.T) {
	s := &Server{}
	l := listenFor(t, s)
	defer l.Close()
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, err = net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, nil, nil, err
		}
		c2, err = l.Accept()
		if err != nil {
			_ = c1.Close()
			return nil, nil, nil, err
		}
		return c2, c1, func() { _ = c1.Close(); _ = c2.Close() }, nil
	})
}

func TestHalfClose(t *testing.T) {
	ours, theirs := pair(t, Options{})
	if err := ours.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(theirs); len(b) > 0 || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	_, _ = io.WriteString(theirs, "still")
	_ = theirs.CloseWrite()
	if b, err := io.ReadAll(ours); string(b) != "still" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := ours.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write behind CloseWrite: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	ours, theirs := pair(t, Options{})
	if a, b := ours.RemoteAddr().String(), theirs.LocalAddr().String(); a != b {
		t.Errorf("remote %s, %s", a, b)
	}
	if a, b := ours.LocalAddr().String(), theirs.RemoteAddr().String(); a != b {
		t.Errorf("local %s, %s", a, b)
	}
	if n := ours.RemoteAddr().Network(); n != "tcp" {
		t.Errorf("network %s", n)
	}
}

// Close wakes all waiting calls.
func TestCloseWakes(t *testing.T) {
	for range 50 {
		ours, _ := pair(t, Options{SendBuffer: 1 << 12})
		var wg sync.WaitGroup
		check := func(what string, f func() error) {
			wg.Go(func() {
				if err := f(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		check("Read", func() error { _, err := ours.Read(make([]byte, 1)); return err })
		check("Read again", func() error { _, err := ours.Read(make([]byte, 1)); return err })
		check("Write", func() error {
			for {
				if _, err := ours.Write(make([]byte, 1<<20)); err != nil {
					return err
				}
			}
		})
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if err := ours.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close: %v", err)
		}
	}
}

// Deadlines apply to a connection that Go's poller does not know yet, to one that it knows, and
// to calls that already wait.
func TestDeadlines(t *testing.T) {
	ours, theirs := pair(t, Options{SendBuffer: 1 << 12})
	late := func(what string, err error) {
		t.Helper()
		if n, ok := errors.AsType[net.Error](err); !errors.Is(err, os.ErrDeadlineExceeded) || !ok || !n.Timeout() {
			t.Errorf("%s: %v", what, err)
		}
	}
	b := make([]byte, 1<<20)
	past := time.Now().Add(-time.Hour)
	_, _ = theirs.Write([]byte("x")) // data that is available is not returned after the deadline
	_ = ours.SetDeadline(past)
	_, err := ours.Read(b)
	late("Read", err)
	_, err = ours.Write(b[:1])
	late("Write", err)
	_ = ours.SetDeadline(time.Time{})
	if n, err := ours.Read(b); n != 1 || err != nil {
		t.Errorf("without a deadline: %d, %v", n, err)
	}
	_ = ours.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err = ours.Read(b)
	late("Read that waits", err)
	_ = ours.SetReadDeadline(time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)) // beyond the range of nanoseconds
	done := make(chan error)
	go func() { _, err := ours.Read(b); done <- err }()
	time.Sleep(5 * time.Millisecond)
	_ = ours.SetReadDeadline(past)
	late("Read that waited already", <-done)
	go func() {
		for {
			if _, err := ours.Write(b); err != nil {
				done <- err
				return
			}
		}
	}()
	time.Sleep(5 * time.Millisecond)
	_ = ours.SetWriteDeadline(past)
	late("Write that waited", <-done)
	_ = ours.SetReadDeadline(past)
	if err := ours.WaitReadable(); true {
		late("WaitReadable", err)
	}
}

// A reset is an error, and not an end of the data.
func TestReset(t *testing.T) {
	ours, theirs := pair(t, Options{})
	_ = theirs.SetLinger(0)
	_ = theirs.Close()
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("Read: %v", err)
	}
}

func TestWaitReadable(t *testing.T) {
	ours, theirs := pair(t, Options{})
	done := make(chan error)
	wait := func() error {
		go func() { done <- ours.WaitReadable() }()
		select {
		case err := <-done:
			t.Errorf("nothing is there, and it returned %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		_, _ = io.WriteString(theirs, "ab")
		return <-done
	}
	for range 3 {
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		if err := ours.WaitReadable(); err != nil { // nothing was consumed
			t.Fatal(err)
		}
		b := make([]byte, 3)
		if n, err := io.ReadAtLeast(ours, b, 2); n != 2 || string(b[:2]) != "ab" {
			t.Fatalf("%q, %v", b[:n], err)
		}
	}
	_ = theirs.Close()
	if err := ours.WaitReadable(); err != nil {
		t.Errorf("at the end: %v", err)
	}
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// Many goroutines may call all methods of a connection at once: there is no race, and none hangs.
func TestAbuse(t *testing.T) {
	for range 30 {
		ours, theirs := pair(t, Options{})
		var wg sync.WaitGroup
		for _, f := range []func(){
			func() { _, _ = io.Copy(io.Discard, ours) },
			func() { _, _ = ours.Write(make([]byte, 1<<16)) },
			func() { _ = ours.SetDeadline(time.Now().Add(time.Millisecond)) },
			func() { _ = ours.CloseWrite() },
			func() { _ = ours.LocalAddr(); _ = ours.RemoteAddr() },
			func() { _ = ours.SetNoDelay(false) },
			func() { _, _ = ours.SyscallConn() },
			func() { _ = ours.WaitReadable() },
			func() { _, _ = io.Copy(theirs, io.LimitReader(theirs, 1<<16)) },
			func() { time.Sleep(time.Millisecond); _ = ours.Close() },
		} {
			wg.Go(f)
		}
		wg.Wait()
		_ = theirs.Close()
	}
}

func TestSyscallConn(t *testing.T) {
	ours, _ := pair(t, Options{})
	raw, err := ours.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	called := false
	if err := raw.Control(func(uintptr) { called = true }); err != nil || !called {
		t.Errorf("Control: %v, called %t", err, called)
	}
}

func TestListenerCloses(t *testing.T) {
	s := &Server{}
	l := listenFor(t, s)
	theirs := dial(t, l.Addr().String())
	ours, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { _, err := l.Accept(); done <- err }()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("it still listens")
	}
	_, _ = io.WriteString(theirs, "x") // accepted connections continue
	if _, err := io.ReadFull(ours, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	_ = ours.Close()
}

func TestListenerHalts(t *testing.T) {
	s := &Server{}
	ours, _ := pairOf(t, s, Options{})
	done := make(chan error)
	go func() { _, err := ours.Read(make([]byte, 1)); done <- err }()
	s.Halt()
	if err := <-done; !errors.Is(err, ErrCut) {
		t.Errorf("Read: %v", err)
	}
	_ = ours.Close()
}

func TestBuffers(t *testing.T) {
	ours, theirs := pair(t, Options{})
	if err := errors.Join(ours.SetReadBuffer(1<<15), ours.SetWriteBuffer(1<<15), ours.SetNoDelay(false), ours.SetLinger(-1)); err != nil {
		t.Error(err)
	}
	_ = theirs.Close()
}

// All data passed to Finish arrives, followed by the end of the stream.
func TestFinish(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 100_000, 5 << 20} {
		ours, theirs := pair(t, Options{})
		got := make(chan int64)
		go func() {
			n, err := io.Copy(io.Discard, theirs)
			if err != nil {
				t.Error(err)
			}
			got <- n
		}()
		_, _ = ours.Write([]byte("x"))
		if n, err := ours.Finish(make([]byte, size)); n != size || err != nil {
			t.Errorf("Finish: %d, %v", n, err)
		}
		if n := <-got; n != int64(size)+1 {
			t.Errorf("%d bytes came of %d", n, size+1)
		}
		if _, err := ours.Finish([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Finish behind Finish: %v", err)
		}
	}
}
