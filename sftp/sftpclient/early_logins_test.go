package sftpclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A loginCounter makes further connections to a fakeServer, and counts their results.
type loginCounter struct {
	p                       *fakeServer
	takes                   time.Duration
	refuses                 bool
	begun, abandoned, ended atomic.Int64
}

type countedCarrier struct {
	mux.Carrier
	ended *atomic.Int64
	once  *sync.Once
}

func (c countedCarrier) Close() error {
	c.once.Do(func() { c.ended.Add(1) })
	return c.Carrier.Close()
}

func (l *loginCounter) connect(ctx context.Context) (mux.Carrier, error) {
	l.begun.Add(1)
	timer := time.NewTimer(l.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		l.abandoned.Add(1)
		return nil, context.Cause(ctx)
	}
	if l.refuses {
		return nil, errors.New("refused")
	}
	return countedCarrier{l.p.connect(), &l.ended, new(sync.Once)}, nil
}

// No matter when the client is closed, it does not abandon a connection before its login is
// finished, and leaves no connection open. But it does not wait forever for a login that does not
// finish.
func TestLoginsAreNotAbandoned(t *testing.T) {
	for _, test := range []struct {
		name                      string
		takes, after, waits       time.Duration
		refuses, fails, abandoned bool
	}{
		{name: "closed at once", takes: 800 * time.Millisecond, waits: 800 * time.Millisecond},
		{name: "closed during the login", takes: 800 * time.Millisecond, after: 500 * time.Millisecond, waits: 300 * time.Millisecond},
		{name: "closed behind the login", takes: 100 * time.Millisecond, after: 150 * time.Millisecond, waits: time.Second},
		{name: "refused", takes: 100 * time.Millisecond, after: time.Second, refuses: true},
		{name: "no session", takes: 800 * time.Millisecond, fails: true, waits: time.Second},
		{name: "never ends", takes: time.Hour, after: time.Second, waits: 5 * time.Second, abandoned: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFakeServer()
				far(p)
				if test.fails {
					p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) { return rawPacket(99, 0), true }
				}
				logins := &loginCounter{p: p, takes: test.takes, refuses: test.refuses}
				c, err := newClient(t.Context(), p.connect(), true, Config{Expect: 1 << 30, RoundTrip: earlyTrip}, logins.connect)
				if (err != nil) != test.fails {
					t.Fatal(err)
				}
				if err == nil {
					time.Sleep(test.after - 2*earlyTrip) // the time that New took
					begin := time.Now()
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					if took := time.Since(begin); took > test.waits {
						t.Errorf("Close took %v, want %v", took, test.waits)
					}
				}
				begun, abandoned, ended := logins.begun.Load(), logins.abandoned.Load(), logins.ended.Load()
				if begun != 7 || (abandoned > 0) != test.abandoned {
					t.Errorf("%d of %d logins were abandoned, want 7 begun and %v", abandoned, begun, test.abandoned)
				}
				if !test.refuses && ended != begun-abandoned {
					t.Errorf("%d of %d connections were closed", ended, begun-abandoned)
				}
				p.wait.Wait()
				if test.refuses && p.opened != 1 {
					t.Errorf("%d sessions, and one was of use", p.opened)
				}
			})
		})
	}
}

// If the context of a transfer ends, the transfer ends at once. Connections that log in later are
// closed with the client.
func TestCancelledWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		far(p)
		p.tree = newEndlessTree(1 << 30)
		logins := &loginCounter{p: p, takes: 8 * earlyTrip}
		c, err := newClient(t.Context(), p.connect(), true, Config{First: "void", Expect: FirstSize, RoundTrip: earlyTrip}, logins.connect)
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.Open(t.Context(), "void")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*earlyTrip, context.Canceled)
		defer cancel()
		if _, err := f.FetchTo(ctx, nowhere{}, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("FetchTo: %v", err)
		}
		_ = f.Close()
		_ = c.Close()
		if logins.abandoned.Load() != 0 || logins.ended.Load() != 7 {
			t.Errorf("%d logins abandoned, %d connections closed", logins.abandoned.Load(), logins.ended.Load())
		}
		p.wait.Wait()
	})
}

// If a server accepts no further logins, or only some, the client does not try again.
func TestFewLogins(t *testing.T) {
	data := pattern(64<<20, 1)
	tree := treeOf(t, data)
	for _, conns := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			far(p)
			p.tree = tree
			var asked, left atomic.Int64
			left.Store(int64(conns))
			c, err := newClient(t.Context(), p.connect(), true, Config{First: "f", Expect: FirstSize, RoundTrip: earlyTrip}, func(context.Context) (mux.Carrier, error) {
				asked.Add(1)
				time.Sleep(8 * earlyTrip)
				if left.Add(-1) < 0 {
					return nil, io.ErrUnexpectedEOF
				}
				return p.connect(), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
					t.Error(err)
				}
			}
			if n := asked.Load(); n != 7 {
				t.Errorf("%d of 7 admitted: asked %d times", conns, n)
			}
			if n := c.measure().Conns; n != 1+conns {
				t.Errorf("%d of 7 admitted: %d connections", conns, n)
			}
			p.end(t, c)
		})
	}
}

// A further connection may be lost at any moment while it is set up. Then other connections
// transfer its part.
func TestLosesBeginningConnections(t *testing.T) {
	data, step := pattern(64<<20, 2), earlyTrip/2
	if race.Enabled { // the race detector follows each byte
		step = 5 * earlyTrip / 2
	}
	tree := treeOf(t, data)
	for _, put := range []bool{false, true} {
		for after := 4 * earlyTrip; after < 9*earlyTrip; after += step {
			synctest.Test(t, func(t *testing.T) {
				p := newFakeServer()
				far(p)
				p.tree = tree
				config := Config{First: "f", Expect: FirstSize, RoundTrip: earlyTrip}
				if put {
					config = Config{Expect: int64(len(data)), RoundTrip: earlyTrip}
				}
				time.AfterFunc(after, func() {
					p.mu.Lock()
					var further []*fakeSession
					for _, s := range p.open {
						if s.n > 1 && s.n%2 == 0 {
							further = append(further, s)
						}
					}
					p.mu.Unlock()
					for _, s := range further {
						s.kill()
					}
				})
				c := p.client(t, config)
				if put {
					if err := uploadAll(t.Context(), c, "g", data); err != nil || !race.Equal(p.get(t, "g"), data) {
						t.Errorf("lost after %v: %v, or other bytes", after, err)
					}
				} else if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
					t.Errorf("lost after %v: %v", after, err)
				}
				p.end(t, c)
				if n := p.openHandles(); n != 0 {
					t.Errorf("lost after %v: %d handles are open", after, n)
				}
			})
		}
	}
}
