package sshconn

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A countingConn counts the calls of Read and Write, and delays each Write by hold.
type countingConn struct {
	net.Conn
	mu     sync.Mutex
	reads  int
	writes int
	hold   time.Duration
}

func (c *countingConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	c.reads++
	c.mu.Unlock()
	return c.Conn.Read(p)
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.writes++
	hold := c.hold
	c.mu.Unlock()
	time.Sleep(hold)
	return c.Conn.Write(p)
}

func (c *countingConn) counts() (reads, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads, c.writes
}

// pattern returns n bytes without repetitions.
func pattern(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// Data that is written while a write is under way is sent with a single write.
func TestConnGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		below := &countingConn{Conn: a, hold: time.Second}
		c := New(below)
		var got []byte
		done := make(chan struct{})
		go func() {
			defer close(done)
			got, _ = io.ReadAll(b)
		}()
		data := pattern(200_000)
		for i := 0; i < len(data); i += 4000 {
			if n, err := c.Write(data[i : i+4000]); n != 4000 || err != nil {
				t.Fatalf("Write = %d, %v", n, err)
			}
		}
		time.Sleep(time.Minute)
		if _, writes := below.counts(); writes > 3 {
			t.Errorf("%d writes for 50", writes)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-done
		if !bytes.Equal(got, data) {
			t.Errorf("%d of %d bytes came", len(got), len(data))
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close: %v", err)
		}
	})
}

func TestConnReads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	data := pattern(3 << 20)
	go func() {
		s, err := l.Accept()
		if err != nil {
			return
		}
		defer s.Close()
		_, _ = New(s).Write(data)
		// Wait until the client has received everything: Close would drop the gathered data.
		_, _ = io.Copy(io.Discard, s)
	}()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := New(a)
	defer c.Close()
	got := make([]byte, len(data))
	for at, size := 0, 1; at < len(got); size = size%70_000 + 997 {
		n, err := c.Read(got[at:min(at+size, len(got))])
		if err != nil {
			t.Fatal(err)
		}
		at += n
	}
	if !bytes.Equal(got, data) {
		t.Error("other bytes read")
	}
	if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read after its deadline: %v", err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() { _ = c.Close() })
	if _, err := c.Read(got); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read of a conn that is closed meanwhile: %v", err)
	}
}

// If the peer does not read, Write waits after a limited number of bytes, until its deadline. Close
// does not wait forever.
func TestConnWriterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		c := New(a)
		if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		n, err := c.Write(make([]byte, 10<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute || n > 3*connGather {
			t.Errorf("Write = %d, %v after %v", n, err, time.Since(begin))
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the Write after it: %v", err)
		}
		_ = c.Close()
		_ = b.Close()

		a, b = net.Pipe()
		c = New(a)
		if _, err := c.Write(make([]byte, 100_000)); err != nil {
			t.Error(err)
		}
		begin = time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != Linger {
			t.Errorf("Close without a reader took %v", took)
		}
		_ = b.Close()

		a, b = net.Pipe()
		c = New(a)
		_ = b.Close()
		for range 3 {
			_, err = c.Write(make([]byte, 100_000))
			time.Sleep(time.Second)
		}
		if err == nil {
			t.Error("Write to a conn that is gone returned no error")
		}
		_ = c.Close()
	})
}

// Several goroutines may write at the same time, and all their data arrives.
func TestConnConcurrentWrites(t *testing.T) {
	a, b := net.Pipe()
	c := New(a)
	const writers, each, size = 8, 200, 777
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				n := size
				if w%2 == 0 {
					n = 3 * size // too long for Write to send it itself: see connInline
				}
				if _, err := c.Write(bytes.Repeat([]byte{byte(w)}, n)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	counts := make(chan [writers]int, 1)
	go func() {
		var n [writers]int
		p := make([]byte, 10_000)
		for {
			got, err := b.Read(p)
			for _, w := range p[:got] {
				n[w]++
			}
			if err != nil {
				counts <- n
				return
			}
		}
	}()
	wg.Wait()
	_ = c.Close()
	for w, n := range <-counts {
		want := each * size
		if w%2 == 0 {
			want *= 3
		}
		if n != want {
			t.Errorf("%d bytes of writer %d came, want %d", n, w, want)
		}
	}
}
