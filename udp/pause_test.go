package udp

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A result is the result of a Read.
type result struct {
	n   int
	err error
}

// reading starts a Read that has nothing to read, and returns once it waits or has waited.
func reading(c *Conn, deadline time.Time) <-chan result {
	done := make(chan result, 1)
	go func() {
		n, err := c.Read(buffers(1), deadline)
		done <- result{n, err}
	}()
	for c.pause.state.Load() != waiting && len(done) == 0 {
		runtime.Gosched()
	}
	return done
}

// returned waits for a Read to return.
func returned(t *testing.T, done <-chan result) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(patience):
		t.Fatal("Read still waits")
		panic("unreachable")
	}
}

func TestWakeWhileWaiting(t *testing.T) { bothWays(t, testWakeWhileWaiting) }

func testWakeWhileWaiting(t *testing.T, config Config) {
	for name, deadline := range map[string]time.Time{
		"no deadline": {}, "a late one": time.Now().Add(time.Hour),
	} {
		c := listen(t, loopback4, config)
		for range 100 {
			done := reading(c, deadline)
			c.Wake()
			if r := returned(t, done); r != (result{}) {
				t.Fatalf("%s: Read = %d, %v", name, r.n, r.err)
			}
		}
	}
}

// A Wake without a waiting reader is kept, but only once.
func TestWakeBefore(t *testing.T) { bothWays(t, testWakeBefore) }

func testWakeBefore(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	c.Wake()
	c.Wake()
	if n, err := c.Read(buffers(1), time.Time{}); n != 0 || err != nil {
		t.Errorf("Read = %d, %v", n, err)
	}
	done := reading(c, time.Time{})
	select {
	case r := <-done:
		t.Errorf("a second Read returned as well: %d, %v", r.n, r.err)
	case <-time.After(time.Millisecond): // if this is too short to notice a fault, the test passes
	}
	c.Wake()
	returned(t, done)
}

// Available data is returned with a Wake, or after it, and is not lost.
func TestWakeWithData(t *testing.T) { bothWays(t, testWakeWithData) }

func testWakeWithData(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	for range 100 {
		write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("x")})
		c.Wake()
		read(t, c, 1)
	}
}

// A dropped datagram does not consume a Wake.
func TestWakeWithNoise(t *testing.T) { bothWays(t, testWakeWithNoise) }

func testWakeWithNoise(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("too long")})
	c.Wake()
	done := make(chan result, 1)
	go func() {
		n, err := c.Read([]Message{{Data: make([]byte, 3)}}, time.Time{})
		done <- result{n, err}
	}()
	if r := returned(t, done); r != (result{}) {
		t.Errorf("Read = %d, %v", r.n, r.err)
	}
}

// Each Wake takes effect, however wakes and waits overlap.
func TestWakeIsNeverLost(t *testing.T) { bothWays(t, testWakeIsNeverLost) }

func testWakeIsNeverLost(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	const wakers, each = 4, 2000
	var asked, served atomic.Int64
	var wg sync.WaitGroup
	for range wakers {
		wg.Go(func() {
			for range each {
				mine := asked.Add(1)
				c.Wake()
				for deadline := time.Now().Add(patience); served.Load() < mine; runtime.Gosched() {
					if time.Now().After(deadline) {
						t.Error("a wake was lost")
						return
					}
				}
			}
		})
	}
	go func() { wg.Wait(); c.Close() }()
	for ms := buffers(1); ; {
		_, err := c.Read(ms, time.Time{})
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		served.Store(asked.Load())
	}
}

// waitUntil reads until the deadline, and fails if that does not end.
func waitUntil(t *testing.T, c *Conn, deadline time.Time) {
	t.Helper()
	for begun := time.Now(); ; {
		n, err := c.Read(buffers(1), deadline)
		if n != 0 || err != nil {
			t.Fatalf("Read = %d, %v", n, err)
		}
		if !time.Now().Before(deadline) {
			return
		}
		if time.Since(begun) > patience {
			t.Fatal("the deadline never came")
		}
	}
}

func TestDeadline(t *testing.T) { bothWays(t, testDeadline) }

func testDeadline(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	waitUntil(t, c, time.Now().Add(time.Millisecond))
	waitUntil(t, c, time.Now().Add(2*time.Millisecond)) // a later deadline than the last one
	waitUntil(t, c, time.Now().Add(-time.Second))
	waitUntil(t, c, longAgo)

	done := reading(c, time.Now().Add(time.Hour))
	c.Wake()
	returned(t, done)
	waitUntil(t, c, time.Now().Add(time.Millisecond)) // an earlier deadline than the last one
	write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("x")})
	read(t, c, 1) // a deadline that has passed does not affect the next Read
}

// If a deadline has passed unnoticed, a Read with a later deadline still waits until the later
// deadline: it returns data that arrives before that.
func TestDeadlineMovesOn(t *testing.T) { bothWays(t, testDeadlineMovesOn) }

func testDeadlineMovesOn(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	done := reading(c, time.Now().Add(5*time.Millisecond))
	write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("x")})
	if returned(t, done).n == 0 {
		read(t, c, 1) // the machine is slow, and the deadline has passed first
	}
	time.Sleep(10 * time.Millisecond) // the socket's deadline passes without a reader
	done = reading(c, time.Now().Add(patience))
	write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("x")})
	if r := returned(t, done); r.n != 1 || r.err != nil {
		t.Errorf("Read = %d, %v", r.n, r.err)
	}
}

// A Read whose deadline has always passed still returns available data.
func TestDeadlinePassedWithData(t *testing.T) { bothWays(t, testDeadlinePassedWithData) }

func testDeadlinePassedWithData(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	ms := buffers(1)
	for range 100 {
		write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("x")})
		for begun := time.Now(); ; {
			n, err := c.Read(ms, time.Now().Add(-time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 {
				break
			}
			if time.Since(begun) > patience {
				t.Fatal("data was there and Read did not look")
			}
		}
	}
}

func TestCloseWhileWaiting(t *testing.T) { bothWays(t, testCloseWhileWaiting) }

func testCloseWhileWaiting(t *testing.T, config Config) {
	for range 20 {
		c := listen(t, loopback4, config)
		done := reading(c, time.Time{})
		c.Close()
		if r := returned(t, done); r.n != 0 || !errors.Is(r.err, net.ErrClosed) {
			t.Errorf("Read = %d, %v", r.n, r.err)
		}
	}
}

// Many sockets may be opened, used from several goroutines and closed at any moment. The race
// detector checks this.
func TestManyAtOnce(t *testing.T) { bothWays(t, testManyAtOnce) }

func testManyAtOnce(t *testing.T, config Config) {
	var wg sync.WaitGroup
	for range 32 {
		c := listen(t, loopback4, config)
		wg.Go(func() {
			for ms := buffers(c.Limits().Messages); ; {
				if _, err := c.Read(ms, time.Now().Add(time.Millisecond)); err != nil {
					return
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				if _, err := c.Write([]Message{{Peer: c.LocalAddr(), Data: pattern(3000), Segment: 1000}}); err != nil {
					t.Error(err)
				}
				c.Wake()
				c.Limits()
			}
			c.Close()
		})
	}
	wg.Wait()
}
