package sftpclient

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// earlyTrip is the round trip of these tests: long enough that the client opens all connections.
const earlyTrip = 100 * time.Millisecond

// far makes p a distant server with little throughput on each connection, which returns the same
// handles as OpenSSH.
func far(p *fakeServer) {
	p.link.latency, p.link.shared, p.conns, p.plain = earlyTrip/2, 20<<20, 7, true
}

// A firstData records when each connection received its first requests to read or write data, and
// how many bytes the requests of that moment were for.
type firstData struct {
	mu    sync.Mutex
	at    map[*fakeCarrier]time.Time // guarded by mu
	bytes map[*fakeCarrier]int       // guarded by mu
}

func (d *firstData) hook(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
	if q.Type != wire.TypeRead && q.Type != wire.TypeWrite {
		return nil, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.at[s.over]; !known {
		d.at[s.over] = time.Now()
	}
	if d.at[s.over].Equal(time.Now()) {
		d.bytes[s.over] += int(q.Length)
	}
	return nil, false
}

// trips returns the number of round trips from begin until each of the given number of connections
// had received a request for data.
func (d *firstData) trips(t *testing.T, begin time.Time, conns int) float64 {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.at) != conns {
		t.Fatalf("%d connections were asked for data, want %d", len(d.at), conns)
	}
	last := begin
	for _, at := range d.at {
		if at.After(last) {
			last = at
		}
	}
	return float64(last.Sub(begin)) / float64(earlyTrip)
}

// For a large file, each connection receives a request for data as soon as it is logged in and has
// a channel. The logins begin when the size is known: for a read with the answer to the first STAT,
// for a write at once.
func TestConnectionsBeginEarly(t *testing.T) {
	const size = 96 << 20
	for _, sessions := range []int{0, 1} {
		for _, test := range []struct {
			name   string
			config Config
			put    bool
			want   float64
		}{
			// The channel and the INIT of the first connection take 1.5 round trips to reach the
			// server, and the answer takes 0.5. The other connections then take three to log in,
			// and 1.5 for the channel and the INIT with its READs.
			{"get", Config{First: "void", Expect: FirstSize, RoundTrip: earlyTrip}, false, 6.5},
			// Three round trips to log in, two for the channel and the INIT with its OPEN, and 0.5
			// for the WRITE.
			{"put", Config{Expect: size, RoundTrip: earlyTrip}, true, 5.5},
		} {
			t.Run(fmt.Sprint(test.name, ", sessions ", sessions), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := newFakeServer()
					far(p)
					p.sessions = sessions
					if !test.put {
						p.tree = newEndlessTree(size)
					}
					d := &firstData{at: map[*fakeCarrier]time.Time{}, bytes: map[*fakeCarrier]int{}}
					p.hook = d.hook
					begin := time.Now()
					c := p.client(t, test.config)
					if test.put {
						u, err := c.Store("").Create(t.Context(), "new", store.Create{Size: size})
						if err != nil {
							t.Fatal(err)
						}
						if n, err := u.(*upload).FillFrom(t.Context(), zeroSource{}, 0, size); n != size || err != nil {
							t.Errorf("FillFrom = %d, %v", n, err)
						}
						_ = u.Close()
					} else {
						f, err := c.Open(t.Context(), "void")
						if err != nil {
							t.Fatal(err)
						}
						if n, err := f.FetchTo(t.Context(), nowhere{}, 0); n != size || err != nil {
							t.Errorf("FetchTo = %d, %v", n, err)
						}
						_ = f.Close()
					}
					// The data itself takes an eighth of a round trip.
					if got := d.trips(t, begin, 8); got > test.want+0.15 {
						t.Errorf("eight connections were asked for data after %.2f round trips, want %.2f", got, test.want)
					}
					// The first connection has left enough of the window for the others.
					for conn, asked := range d.bytes {
						if conn != p.first && !test.put && asked < 1<<20 {
							t.Errorf("a connection was asked for %d bytes at first", asked)
						}
					}
					if p.made != 8 || sessions == 0 && c.measure().Conns != 8 {
						t.Errorf("%d connections, %+v", p.made, c.measure())
					}
					_ = c.Close()
					p.wait.Wait()
				})
			})
		}
	}
}

// The client opens no further connections if the expected file turns out to be small, if it cannot
// be opened, or if the server is near.
func TestExpectsSmall(t *testing.T) {
	const large = 64 << 20
	// secret is a large file without read permission.
	secret := func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
		if string(q.Path) != "secret" {
			return nil, false
		}
		if q.Type != wire.TypeStat {
			return wire.AppendStatus(nil, q.ID, wire.PermissionDenied, "No!"), true
		}
		var a wire.Attrs
		a.SetMode(wire.ModeRegular)
		a.SetSize(large)
		return wire.AppendAttrs(nil, q.ID, a), true
	}
	for _, test := range []struct {
		name   string
		size   int64
		config Config
		made   int
	}{
		{"small", large - 1, Config{First: "void", Expect: FirstSize, RoundTrip: earlyTrip}, 1},
		{"small, to be written", large, Config{Expect: large - 1, RoundTrip: earlyTrip}, 1},
		{"not to be moved", large, Config{First: "void", RoundTrip: earlyTrip}, 1},
		{"near", large, Config{First: "void", Expect: FirstSize, RoundTrip: time.Millisecond}, 1},
		{"trip not known", large, Config{First: "void", Expect: FirstSize}, 1},
		{"no such file", large, Config{First: "none", Expect: FirstSize, RoundTrip: earlyTrip}, 1},
		{"not to be read", large, Config{First: "secret", Expect: FirstSize, RoundTrip: earlyTrip}, 1},
		{"one request at a time", large, Config{First: "void", Expect: large, RoundTrip: earlyTrip, Requests: 1}, 1},
		{"two connections", large, Config{Conns: 2, Expect: large, RoundTrip: earlyTrip}, 2},
		{"not that far", large, Config{First: "void", Expect: FirstSize, RoundTrip: earlyTrip / 4}, 4},
		{"large", large, Config{First: "void", Expect: FirstSize, RoundTrip: earlyTrip}, 8},
		{"large, to be written", 0, Config{Expect: large, RoundTrip: earlyTrip}, 8},
	} {
		t.Run(test.name, func(t *testing.T) {
			withFakeServer(t, test.config, func(p *fakeServer) { far(p); p.tree = newEndlessTree(test.size); p.hook = secret }, func(t *testing.T, p *fakeServer, c *Client) {
				time.Sleep(time.Minute)
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.made != test.made {
					t.Errorf("%d connections, want %d", p.made, test.made)
				}
			})
		})
	}
}

// The client opens no further connections to a near server whose first answers are late, but does
// open them to a distant server behind a near forwarder.
func TestLateServer(t *testing.T) {
	for _, test := range []struct {
		name   string
		late   int // number of answers that arrive late
		far    bool
		config Config
		more   bool
	}{
		{"near", 0, false, Config{RoundTrip: time.Millisecond}, false},
		// Until the late answers arrive, the client sends requests until the window is full. All of
		// these requests together are for less than lateBytes.
		{"near and late", 6, false, Config{RoundTrip: time.Millisecond}, false},
		{"late, trip not known", 6, false, Config{}, true},
		{"forwarded", 0, true, Config{RoundTrip: time.Millisecond}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			withFakeServer(t, test.config, func(p *fakeServer) {
				far(p)
				p.tree = newEndlessTree(96 << 20) // 64 MiB of this are enough for further logins
				if !test.far {
					p.link.latency, p.link.shared = 500*time.Microsecond, 200<<20
				}
				var answers atomic.Int64
				p.late = func(wire.Request) time.Duration {
					if answers.Add(1) > int64(test.late) {
						return 0
					}
					return 50 * time.Millisecond
				}
			}, func(t *testing.T, p *fakeServer, c *Client) {
				f, err := c.Open(t.Context(), "void")
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := io.CopyN(io.Discard, f, 16<<20); err != nil {
					t.Fatal(err)
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				if more := p.made > 1; more != test.more {
					t.Errorf("%d connections", p.made)
				}
			})
		})
	}
}

// Other sessions guess the handle of the file. Whether the guess is right or not, the client
// returns only data of the file that the first session opened. It does not use data that was read
// ahead from another file, or before it knew which file that was.
func TestGuessedHandles(t *testing.T) {
	data := pattern(64<<20, 7)
	tree := treeOf(t, data)
	further := func(s *fakeSession) bool { return s.n > 1 }
	garbage := func(q wire.Request) []byte {
		return wire.AppendData(nil, q.ID, bytes.Repeat([]byte{0xee}, int(q.Length)))
	}
	for name, test := range map[string]struct {
		hook     func(*fakeSession, wire.Request, []byte) ([]byte, bool)
		late     func(wire.Request) time.Duration
		sessions bool // other connections are used
	}{
		"right": {sessions: true},
		"wrong": {func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if further(s) && q.Type == wire.TypeOpen && s.last == 0 {
				s.last = 7
			}
			return nil, false
		}, nil, true},
		"OPEN refused": {func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if !further(s) || q.Type != wire.TypeOpen {
				return nil, false
			}
			return wire.AppendStatus(nil, q.ID, wire.PermissionDenied, ""), true
		}, nil, false},
		"another file": {func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			switch {
			case further(s) && q.Type == wire.TypeFstat:
				a := wire.Attrs{Flags: wire.AttrTimes, Mtime: 99}
				a.SetSize(int64(len(data)))
				return wire.AppendAttrs(nil, q.ID, a), true
			case further(s) && q.Type == wire.TypeRead:
				return garbage(q), true
			}
			return nil, false
		}, nil, false},
		"READ before OPEN": {func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if further(s) && q.Type == wire.TypeRead && s.handles[string(q.Handle)] == nil {
				return garbage(q), true
			}
			return nil, false
		}, func(q wire.Request) time.Duration {
			if q.Type == wire.TypeOpen {
				return earlyTrip
			}
			return 0
		}, true},
		"READ before FSTAT": {nil, func(q wire.Request) time.Duration {
			if q.Type == wire.TypeFstat {
				return 2 * earlyTrip
			}
			return 0
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFakeServer()
				far(p)
				p.sessions = 1 // allows further sessions only on other connections
				p.tree = tree
				var used atomic.Int64
				p.hook = func(s *fakeSession, q wire.Request, b []byte) ([]byte, bool) {
					if further(s) && q.Type == wire.TypeRead {
						used.Add(1)
					}
					if test.hook != nil {
						return test.hook(s, q, b)
					}
					return nil, false
				}
				p.late = test.late
				c := p.client(t, Config{First: "f", Expect: FirstSize, RoundTrip: earlyTrip})
				if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
					t.Error(err)
				}
				if err := c.mux.State().LastLoss; err != nil {
					t.Errorf("a session was lost: %v", err)
				}
				if used.Load() == 0 {
					t.Error("nothing was asked ahead")
				}
				if n := c.measure().Conns; test.sessions && n != 8 {
					t.Errorf("%d connections", n)
				}
				p.end(t, c)
				if n := p.openHandles(); n != 0 {
					t.Errorf("%d handles are open", n)
				}
			})
		})
	}
}

// If data that was read ahead from another file arrives after the client knows that it is another
// file, it is not written to the caller's memory, which may already hold the right data.
func TestGuessedWronglyAndLate(t *testing.T) {
	data := pattern(64<<20, 5)
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		far(p)
		p.sessions = 1
		p.put(t, "f", data)
		late := 0
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			switch {
			case s.n > 1 && q.Type == wire.TypeFstat:
				a := wire.Attrs{Flags: wire.AttrTimes, Mtime: 99}
				a.SetSize(int64(len(data)))
				return wire.AppendAttrs(nil, q.ID, a), true
			case s.n > 1 && q.Type == wire.TypeRead:
				reply := wire.AppendData(nil, q.ID, make([]byte, q.Length))
				p.mu.Lock()
				late++
				p.mu.Unlock()
				p.wait.Go(func() {
					time.Sleep(5 * earlyTrip)
					s.write(reply)
				})
				return nil, true
			}
			return nil, false
		}
		c := p.client(t, Config{First: "f", Expect: FirstSize, RoundTrip: earlyTrip})
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len(data))
		if n, err := f.ReadAt(b, 0); n != len(b) || err != nil || !race.Equal(b, data) {
			t.Errorf("ReadAt = %d, %v, or other bytes", n, err)
		}
		if p.mu.Lock(); late == 0 {
			t.Error("nothing was asked ahead")
		}
		p.mu.Unlock()
		_ = f.Close()
		p.end(t, c)
	})
}

// The expected size may be wrong, and the file may shrink while connections are opened for it.
func TestExpectsTooMuch(t *testing.T) {
	data := pattern(100_000, 3)
	hook := func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
		if q.Type != wire.TypeStat {
			return nil, false
		}
		var a wire.Attrs
		a.SetMode(wire.ModeRegular | 0o644)
		a.SetSize(1 << 40)
		return wire.AppendAttrs(nil, q.ID, a), true
	}
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		far(p)
		p.hook = hook
		p.put(t, "f", data)
		c := p.client(t, Config{First: "f", Expect: FirstSize, RoundTrip: earlyTrip})
		if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
			t.Error(err)
		}
		p.end(t, c)
		if n := p.openHandles(); n != 0 {
			t.Errorf("%d handles are open", n)
		}
	})
}
