package penalty

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An arrival is a connection for which Enter is called, on its own goroutine.
type arrival struct {
	v   *Visit
	err error
	in  bool // Enter has returned
}

func enter(ctx context.Context, g *Guard, from string) *arrival {
	a := &arrival{}
	go func() {
		a.v, a.err = g.Enter(ctx, time.Now, netip.MustParseAddr(from))
		a.in = true
	}()
	synctest.Wait()
	return a
}

// wantIn checks for which connections Enter has returned without an error.
func wantIn(t *testing.T, all []*arrival, want ...bool) {
	t.Helper()
	synctest.Wait()
	for i, a := range all {
		if (a.in && a.err == nil) != want[i] {
			t.Errorf("arrival %d: %+v, want %v", i, *a, want[i])
		}
	}
}

// If a source has more connections than it may have handshakes, the others wait, in order. They do not
// block other sources.
func TestEnterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Guard{MaxHandshakes: 3, MaxHandshakesPerSource: 2}
		ctx, cancel := context.WithCancel(t.Context())
		var all []*arrival
		for range 4 {
			all = append(all, enter(ctx, &g, "192.0.2.1"))
		}
		all = append(all, enter(ctx, &g, "198.51.100.1"), enter(ctx, &g, "203.0.113.1"))
		// The last one waits because of the limit for all sources.
		wantIn(t, all, true, true, false, false, true, false)
		if c, h := g.Live(); c != 6 || h != 3 {
			t.Errorf("%d connections and %d handshakes", c, h)
		}
		all[4].v.Succeed()
		wantIn(t, all, true, true, false, false, true, true)
		all[0].v.Succeed()
		wantIn(t, all, true, true, true, false, true, true)
		cancel()
		synctest.Wait()
		wantCause(t, all[3].err, TooManyHandshakesOf)
		for i, a := range all {
			if i != 3 {
				a.v.End(time.Now())
			}
		}
		if c, h := g.Live(); c != 0 || h != 0 || len(g.queue) != 0 || len(g.live) != 0 {
			t.Errorf("%d connections and %d handshakes are left", c, h)
		}
	})
}

// The queue is bounded, for one source and for all, and waiting connections count among the
// connections.
func TestEnterBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Guard{MaxHandshakesPerSource: 1}
		ctx, cancel := context.WithCancel(t.Context())
		for range 1 + MaxWaitingPerSource {
			if a := enter(ctx, &g, "192.0.2.1"); a.err != nil {
				t.Fatal(a.err)
			}
		}
		wantCause(t, enter(ctx, &g, "192.0.2.1").err, TooManyHandshakesOf)
		for i := 1; len(g.queue) < MaxWaiting; i++ {
			enter(ctx, &g, netip.AddrFrom4([4]byte{10, byte(i / 50), 0, 1}).String())
		}
		if a := enter(ctx, &g, "10.0.0.1"); a.err == nil {
			t.Error("the queue has no end")
		}
		cancel()
		synctest.Wait()
		small := Guard{MaxConns: 3, MaxHandshakesPerSource: 1}
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		for range 3 {
			enter(ctx, &small, "192.0.2.1")
		}
		wantCause(t, enter(ctx, &small, "192.0.2.1").err, TooManyConns)
	})
}

// If a source is refused while its connections wait, Enter returns an error for them.
func TestEnterAfterPenalty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Guard{MaxHandshakesPerSource: 1}
		first, second := enter(t.Context(), &g, "192.0.2.1"), enter(t.Context(), &g, "192.0.2.1")
		first.v.Fail(time.Now(), Malformed)
		first.v.End(time.Now())
		synctest.Wait()
		wantCause(t, second.err, Penalized)
		if c, h := g.Live(); c != 0 || h != 0 {
			t.Errorf("%d connections and %d handshakes are left", c, h)
		}
	})
}

// If a source sends many passwords at once, no more of them are checked than if it had sent them one
// after the other, except for one, which was already being checked.
func TestGuessesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		checked, refused := 0, 0
		var mu sync.Mutex
		for range DefaultMaxHandshakesPerSource {
			v, err := g.Admit(time.Now(), netip.MustParseAddr("192.0.2.1"))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				end, err := v.BeginGuess(t.Context(), time.Now)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					refused++
					wantCause(t, err, WrongPasswords)
					return
				}
				checked++
				mu.Unlock()
				time.Sleep(time.Millisecond) // the time for which the password is being checked
				mu.Lock()
				v.Fail(time.Now(), BadLogin)
				end()
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		// One more is possible, because some of the debt expires meanwhile.
		if most := int(Threshold/BadLogin.cost()) + maxGuesses; checked > most || checked+refused != DefaultMaxHandshakesPerSource {
			t.Errorf("%d passwords are checked and %d refused, want %d checked at most", checked, refused, most)
		}
	})
}

// If the context of a waiting password is done, BeginGuess returns an error, and the number of
// passwords that may be checked is the same as before.
func TestGuessWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Guard{Exempt: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
		guess := func(ctx context.Context, from string) (func(), error) {
			v, err := g.Admit(time.Now(), netip.MustParseAddr(from))
			if err != nil {
				t.Fatal(err)
			}
			return v.BeginGuess(ctx, time.Now)
		}
		var ends []func()
		for _, from := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "10.0.0.1", "10.0.0.1", "10.0.0.1"} {
			end, err := guess(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, end)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := guess(ctx, "192.0.2.1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third password at once: %v", err)
		}
		ends[0]()
		if _, err := guess(t.Context(), "192.0.2.1"); err != nil {
			t.Errorf("a password whose turn has come: %v", err)
		}
	})
}
