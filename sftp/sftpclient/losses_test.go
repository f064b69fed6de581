package sftpclient

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// The client's limits: see mux.losses.
const (
	maxLosses  = 10
	calmTime   = 30 * time.Second
	firstPause = 100 * time.Millisecond
)

// endless has the attributes of an endless file.
var endless = wire.Attrs{
	Flags: wire.AttrSize | wire.AttrMode | wire.AttrTimes, Size: 1 << 50, Mode: wire.ModeRegular, Mtime: 1e9,
}

// serveEndless makes p serve an endless file, and passes its READs to read, which may answer them.
func (p *fakeServer) serveEndless(read func(s *fakeSession, q wire.Request) ([]byte, bool)) {
	p.tree = newEndlessTree(endless.Size)
	p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
		switch q.Type {
		case wire.TypeStat, wire.TypeFstat:
			return wire.AppendAttrs(nil, q.ID, endless), true
		case wire.TypeRead:
			return read(s, q)
		}
		return nil, false
	}
}

// If a server sends some data and then breaks the protocol, the client tries a second time, but not
// a third time, no matter how much data arrives in between: each new connection costs a login.
func TestGivesUpOnViolations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.conns, p.link.latency = 1000, time.Millisecond
		var mu sync.Mutex
		begun := map[*fakeSession]bool{}
		p.serveEndless(func(s *fakeSession, q wire.Request) ([]byte, bool) {
			b := s.answer(q)
			mu.Lock()
			first := !begun[s]
			begun[s] = true
			mu.Unlock()
			if first {
				return b, true
			}
			time.Sleep(time.Microsecond) // by then the client has handled the first answer
			return append(b, b...), true
		})
		c := p.client(t, Config{})
		f, err := c.Open(t.Context(), "void")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		n, err := f.FetchTo(t.Context(), nowhere{}, 0)
		if !errors.Is(err, ErrProtocol) || errors.Is(err, ErrConnectionLost) || !strings.Contains(err.Error(), "second time") || n == 0 {
			t.Errorf("FetchTo = %d, %v; want some bytes, and a protocol that was violated twice", n, err)
		}
		took := time.Since(begin)
		_ = f.Close()
		_ = c.Close()
		p.wait.Wait()
		if took > 10*time.Second || p.made > 3 {
			t.Errorf("%d connections in %v", p.made, took)
		}
	})
}

// If a server answers a number of READs in each session, and then ends it, the client tries again
// at increasing intervals. If it receives hardly anything, it soon gives up.
func TestBacksOff(t *testing.T) {
	for _, test := range []struct {
		name     string
		sessions int           // on one connection; 0 means the maximum, on several connections
		reads    int           // number of READs that are answered in each session
		most     int           // largest number of connections that the client may open
		until    time.Duration // time after which the fetch is canceled
		gives    bool          // the client must give up
	}{
		{"hardly anything", 1, 1, maxLosses + 2, time.Hour, true},
		{"some", 1, 8, 45, 3 * time.Minute, false},
		{"hardly anything on many", 0, 1, 8 * maxLosses, time.Hour, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newFakeServer()
				p.conns, p.link.latency = 100_000, time.Millisecond
				answered := map[*fakeSession]int{}
				p.serveEndless(func(s *fakeSession, _ wire.Request) ([]byte, bool) {
					p.mu.Lock()
					defer p.mu.Unlock()
					if answered[s]++; answered[s] == test.reads+1 {
						s.stream.out.end(false) // after the answers
					}
					return nil, answered[s] > test.reads
				})
				c := p.client(t, Config{Conns: test.sessions, Sessions: test.sessions})
				f, err := c.Open(t.Context(), "void")
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := withCancel(t)
				time.AfterFunc(test.until, cancel)
				begin := time.Now()
				n, err := f.FetchTo(ctx, nowhere{}, 0)
				took := time.Since(begin)
				if errors.Is(err, ErrConnectionLost) != test.gives || test.gives == (took == test.until) {
					t.Errorf("FetchTo = %d, %v after %v; that it gives up is %v", n, err, took, test.gives)
				}
				t.Logf("%d connections in %v, %d bytes", p.made, took, n)
				if p.made > test.most || p.made < maxLosses/2 {
					t.Errorf("%d connections in %v, want %d at the most, and half of maxLosses at least", p.made, took, test.most)
				}
				_ = f.Close()
				_ = c.Close()
				p.wait.Wait()
			})
		})
	}
}

// A client that has given up tries again for a later call.
func TestGivesUpForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.conns = 1000
		bad := true
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type == wire.TypeStat && bad {
				s.stream.out.end(false)
				return nil, true
			}
			return nil, false
		}
		p.put(t, "f", nil)
		c := p.client(t, Config{})
		for range 2 * maxLosses {
			if _, err := c.Stat(t.Context(), "f"); !errors.Is(err, ErrConnectionLost) {
				t.Errorf("Stat: %v", err)
			}
		}
		if p.made > maxLosses+2 {
			t.Errorf("%d connections", p.made)
		}
		bad = false
		time.Sleep(calmTime)
		if _, err := c.Stat(t.Context(), "f"); err != nil {
			t.Errorf("Stat: %v", err)
		}
		p.end(t, c)
	})
}

// Rare losses cause no waits: the client reconnects at once after the first loss, and a loss of
// long ago does not count.
func TestRareLosses(t *testing.T) {
	data := pattern(20_000, 2)
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.conns, p.link.latency = 1000, time.Millisecond
	}, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "f", data)
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for range 3 * maxLosses {
			p.open[len(p.open)-1].kill()
			begin := time.Now()
			var b growingFile
			if n, err := f.FetchTo(t.Context(), &b, 0); err != nil || !bytes.Equal(b.b, data) {
				t.Fatalf("FetchTo = %d, %v", n, err)
			}
			if took := time.Since(begin); took >= firstPause {
				t.Errorf("it took %v", took)
			}
			time.Sleep(calmTime)
		}
	})
}
