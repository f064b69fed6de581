//go:build !haul_portable

package udp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The properties of a Conn are tested for both ways of waiting: see bothWays. This file has tests
// that only an ownPoll needs.

func nothing(uintptr) bool { return false }

// poll returns an ownPoll for a socket that receives no datagrams.
func poll(t *testing.T) *ownPoll {
	t.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	p, err := takeOver(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // most tests have already closed it
	return p
}

// begin calls f in a goroutine, and returns once a reader waits.
func (p *ownPoll) begin(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	for !p.waiting.Load() && len(done) == 0 {
		runtime.Gosched()
	}
	return done
}

// wantEnd waits for a call to end in the given way.
func wantEnd(t *testing.T, what string, done <-chan error, want error) {
	t.Helper()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	case <-time.After(patience):
		t.Fatalf("%s: still waiting", what)
	}
}

// Only the deadline that was set last counts.
func TestOwnPollDeadlines(t *testing.T) {
	const soon = 2 * time.Millisecond
	late, never, past := time.Hour, time.Duration(0), -time.Hour
	for _, before := range [][]time.Duration{
		{}, {late}, {late, never}, {soon}, {soon, never}, {soon, late}, {past}, {past, late}, {past, never}, {late, past, late, soon, never},
	} {
		for _, last := range []time.Duration{soon, past, 1} {
			p := poll(t)
			set := func(d time.Duration) time.Time {
				var at time.Time
				if d != never {
					at = time.Now().Add(d)
				}
				if err := p.SetReadDeadline(at); err != nil {
					t.Fatal(err)
				}
				return at
			}
			for _, d := range before {
				set(d)
			}
			at := set(last)
			for range 2 { // a deadline that has passed makes all further reads fail
				err := p.Read(nothing)
				if !errors.Is(err, os.ErrDeadlineExceeded) || time.Now().Before(at) {
					t.Errorf("%v, then %v: %v, %v early", before, last, err, time.Until(at))
				}
			}
			// With the next deadline the read waits, and no old deadline ends that wait.
			set(late)
			set(never)
			done := p.begin(func() error { return p.Read(nothing) })
			select {
			case err := <-done:
				t.Fatalf("%v, then %v, then none: %v", before, last, err)
			case <-time.After(time.Millisecond): // if this is too short to notice a fault, the test passes
			}
			set(past)
			wantEnd(t, "interrupted", done, os.ErrDeadlineExceeded)
			_ = p.Close()
		}
	}
}

// A deadline that is set, moved or removed during a wait takes effect.
func TestOwnPollDeadlineMeanwhile(t *testing.T) {
	p := poll(t)
	for range 50 {
		if err := p.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		done := p.begin(func() error { return p.Read(nothing) })
		for _, at := range []time.Time{time.Now().Add(time.Hour), {}, time.Now().Add(time.Millisecond)} {
			if err := p.SetReadDeadline(at); err != nil {
				t.Fatal(err)
			}
		}
		wantEnd(t, "moved while waiting", done, os.ErrDeadlineExceeded)
	}
}

// Any number of wakes at once end only one wait, and cost no more than a few wakes.
func TestOwnPollManyWakes(t *testing.T) {
	c := listen(t, loopback4, Config{Busy: true})
	for range 50 {
		done := reading(c, time.Now().Add(time.Hour))
		for range 1000 {
			c.Wake()
		}
		if r := returned(t, done); r != (result{}) {
			t.Fatalf("Read = %d, %v", r.n, r.err)
		}
	}
	// At most one wake, which arrived after the last Read, is kept.
	if n, err := c.Read(buffers(1), time.Now().Add(time.Millisecond)); n != 0 || err != nil {
		t.Fatalf("Read = %d, %v", n, err)
	}
	done := reading(c, time.Time{})
	write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("x")})
	for r := returned(t, done); r.n == 0; r = returned(t, reading(c, time.Time{})) {
		if r.err != nil {
			t.Fatal(r.err)
		}
	}
}

// Close ends the waits of readers and writers. Only one of several calls of Close succeeds.
func TestOwnPollClose(t *testing.T) {
	for range 20 {
		p := poll(t)
		reads := p.begin(func() error { return p.Read(nothing) })
		writes := make(chan error, 1)
		go func() { writes <- p.Write(nothing) }()
		closed := make(chan error, 2)
		for range 2 {
			go func() { closed <- p.Close() }()
		}
		wantEnd(t, "Read", reads, net.ErrClosed)
		select {
		case err := <-writes: // the write may have failed before because of a full buffer
			if !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("Write: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("Write still waits")
		}
		if one, other := <-closed, <-closed; (one == nil) == (other == nil) {
			t.Errorf("two Closes: %v and %v", one, other)
		}
		for name, err := range map[string]error{
			"Read": p.Read(nothing), "Write": p.Write(nothing), "Control": p.Control(func(uintptr) { t.Error("called") }),
			"SetReadDeadline": p.SetReadDeadline(time.Now().Add(time.Hour)),
		} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s once it is closed: %v", name, err)
			}
		}
		if err := p.SetReadDeadline(longAgo); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// A sentinels opens descriptors all the time, which get the numbers that a Conn has just closed. So
// it detects a call that uses a number after the Conn has closed it.
type sentinels struct {
	t    *testing.T
	stop atomic.Bool
	done sync.WaitGroup
}

func watchNumbers(t *testing.T) *sentinels {
	s := &sentinels{t: t}
	for range 2 {
		s.done.Go(func() {
			for !s.stop.Load() {
				s.once()
			}
		})
	}
	return s
}

// once opens a few descriptors of the kinds that an ownPoll has, and checks that no other code uses
// them.
func (s *sentinels) once() {
	var events, timers [3]int
	var err error
	for i := range events {
		if events[i], err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
			s.t.Error(err)
		}
		if timers[i], err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
			s.t.Error(err)
		}
	}
	for range 10 {
		runtime.Gosched()
	}
	for i := range events {
		var count [8]byte
		if _, err := unix.Read(events[i], count[:]); err != unix.EAGAIN {
			s.t.Errorf("a call wrote to another's descriptor: %v, %v", count, err)
		}
		var spec unix.ItimerSpec
		if err := unix.TimerfdGettime(timers[i], &spec); err != nil || spec != (unix.ItimerSpec{}) {
			s.t.Errorf("a call set another's timer: %v, %v", spec, err)
		}
		for _, fd := range []int{events[i], timers[i]} {
			if err := unix.Close(fd); err != nil {
				s.t.Errorf("a call closed another's descriptor: %v", err)
			}
		}
	}
}

func (s *sentinels) end() {
	s.stop.Store(true)
	s.done.Wait()
}

// Calls at the same time as Close may fail or succeed. They never use a descriptor that has another
// owner by then.
func TestOwnPollCloseAtAnyMoment(t *testing.T) {
	watch := watchNumbers(t)
	defer watch.end()
	to := listen(t, loopback4, Config{})
	for range 50 {
		c, err := Listen(t.Context(), netip.AddrPortFrom(loopback4, 0), Config{Busy: true, Plain: true})
		if err != nil {
			t.Fatal(err)
		}
		p := c.closer.(*ownPoll)
		var wg sync.WaitGroup
		until := func(f func() error) {
			wg.Go(func() {
				for begun := time.Now(); ; {
					switch err := f(); {
					case errors.Is(err, net.ErrClosed):
						return
					case err != nil:
						t.Error(err)
						return
					case time.Since(begun) > patience:
						t.Error("continues, though it is closed")
						return
					}
				}
			})
		}
		ms := buffers(1)
		until(func() error {
			_, err := c.Read(ms, time.Now().Add(time.Duration(rand.IntN(200))*time.Microsecond))
			return err
		})
		until(func() error {
			_, err := c.Write([]Message{{Peer: to.LocalAddr(), Data: []byte("x")}})
			return err
		})
		until(func() error { c.Wake(); return p.Control(func(uintptr) {}) })
		until(func() error {
			return p.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(100)) * time.Microsecond))
		})
		time.Sleep(time.Duration(rand.IntN(500)) * time.Microsecond)
		for range 2 {
			wg.Go(func() { _ = c.Close() }) // the second call reports that the Conn is already closed
		}
		wg.Wait()
		c.Wake()
	}
}

// descriptors returns how many descriptors this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// Closed sockets leave no descriptor, even if they were in use.
func TestOwnPollDescriptors(t *testing.T) {
	f := bound(t, "udp4", "127.0.0.1:0")
	use := func() {
		c := listen(t, loopback4, Config{Busy: true})
		done := reading(c, time.Now().Add(time.Hour))
		c.Wake()
		returned(t, done)
		done = reading(c, time.Time{})
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		returned(t, done)
		if err := fromBound(t, f, Config{Busy: true}).Close(); err != nil {
			t.Error(err)
		}
		if _, err := FromFile(f, Config{Busy: true, ReusePort: true}); err == nil {
			t.Error("shares a port that was bound alone")
		}
		if _, err := Listen(t.Context(), netip.MustParseAddrPort("192.0.2.99:0"), Config{Busy: true}); err == nil {
			t.Error("listens on a foreign address")
		}
	}
	use() // opens what the runtime keeps
	before := descriptors(t)
	for range 50 {
		use()
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors open, were %d", after, before)
	}
}

// If the process has no more descriptors, a call that fails leaves none open.
func TestOwnPollOutOfDescriptors(t *testing.T) {
	f := bound(t, "udp4", "127.0.0.1:0")
	listen(t, loopback4, Config{Busy: true}) // opens what the runtime keeps
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	open := map[string]func() (*Conn, error){
		"Listen": func() (*Conn, error) {
			return Listen(context.Background(), netip.AddrPortFrom(loopback4, 0), Config{Busy: true})
		},
		"FromFile": func() (*Conn, error) { return FromFile(f, Config{Busy: true}) },
	}
	for name, open := range open {
		failed, before := 0, descriptors(t)
		for room := uint64(1); ; room++ {
			c, err := openWith(t, room, was, open)
			if err != nil {
				failed++
				if !errors.Is(err, unix.EMFILE) || c != nil {
					t.Errorf("%s with room for %d: %v", name, room, err)
				}
			} else if err := c.Close(); err != nil {
				t.Error(err)
			}
			if after := descriptors(t); after != before {
				t.Fatalf("%s with room for %d: %d descriptors open, were %d", name, room, after, before)
			}
			if c != nil {
				break
			}
		}
		if failed < 4 {
			t.Errorf("%s failed with room for less than %d descriptors only: the test no longer does what it should", name, failed+1)
		}
	}
}

// openWith calls open with a limit that leaves room for the given number of descriptors.
func openWith(t *testing.T, room uint64, was unix.Rlimit, open func() (*Conn, error)) (*Conn, error) {
	t.Helper()
	// The lowest free number; all numbers after it are assumed to be free too.
	next, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(next)
	low := was
	low.Cur = uint64(next) + room
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}()
	return open()
}

// echo answers each datagram until c is closed.
func echo(t *testing.T, c *Conn) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for ms := buffers(1); ; {
			n, err := c.Read(ms, time.Now().Add(time.Hour))
			if err != nil {
				return
			}
			if _, err := c.Write(ms[:n]); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() { c.Close(); wg.Wait() })
}

// Datagrams are exchanged one by one, like those of clients in lock-step. No datagram is lost, and
// waiting does not allocate.
func TestOwnPollTurns(t *testing.T) {
	for _, config := range []Config{{Busy: true}, {Busy: true, Plain: true}, {Busy: true, Refusals: true}} {
		t.Run(fmt.Sprintf("%+v", config), func(t *testing.T) {
			server, client := listen(t, loopback4, config), listen(t, loopback4, config)
			echo(t, server)
			in, out := buffers(2), []Message{{Peer: server.LocalAddr(), Data: make([]byte, 2)}}
			turn := 0
			take := func() {
				turn++
				out[0].Data[0], out[0].Data[1] = byte(turn>>8), byte(turn)
				if _, err := client.Write(out); err != nil {
					t.Fatal(err)
				}
				for begun := time.Now(); ; {
					n, err := client.Read(in, time.Now().Add(patience))
					if err != nil || time.Since(begun) > patience {
						t.Fatalf("turn %d: %v", turn, err)
					}
					if n > 0 {
						break
					}
				}
				if d := in[0].Data; len(d) != 2 || d[0] != out[0].Data[0] || d[1] != out[0].Data[1] {
					t.Fatalf("turn %d: got %v", turn, d)
				}
				if turn%3 == 0 {
					client.Wake()
				}
			}
			allocs := testing.AllocsPerRun(1000, take)
			if turn != 1001 {
				t.Errorf("%d turns", turn)
			}
			if allocs != 0 {
				t.Errorf("%v allocations a turn", allocs)
			}
		})
	}
}
