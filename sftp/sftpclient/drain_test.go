package sftpclient

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// Before a client disconnects after a download, it closes all files in each session, and waits no
// longer than necessary.
func TestDrain(t *testing.T) {
	const latency = 50 * time.Millisecond // one way
	// A session may have just sent an OPEN: the CLOSE follows when it is answered.
	const most = 4 * latency
	for _, test := range []struct {
		name     string
		size     int64
		files    int // number of files open at a time
		sessions int // the smallest number of sessions that the client must use
		most     time.Duration
	}{
		{"small", 5000, 1, 1, 0},
		{"several sessions", int64(race.Fewer(300<<20, 2)), 1, 2, most},
		{"several files", 5000, 3, 3, most},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHaulHost(t, newEndlessTree(test.size), false)
				h.link.latency = latency
				var mu sync.Mutex
				ended := 0
				h.server.Ended = func(x *sftp.Transfer) {
					mu.Lock()
					defer mu.Unlock()
					if ended++; x.Err != nil {
						t.Errorf("%s: %d bytes, %v", x.Name, x.Sent(), x.Err)
					}
				}
				s, err := h.dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				c, err := New(t.Context(), s, Config{Connect: h.dial})
				if err != nil {
					t.Fatal(err)
				}
				var files []*File
				for range test.files {
					f, err := c.Open(t.Context(), "void")
					if err != nil {
						t.Fatal(err)
					}
					if n, err := f.FetchTo(t.Context(), nowhere{}, 0); n != test.size || err != nil {
						t.Errorf("FetchTo = %d, %v", n, err)
					}
					files = append(files, f)
				}
				for _, f := range files {
					if err := f.Close(); err != nil {
						t.Error(err)
					}
				}
				begin := time.Now()
				c.Drain()
				if took := time.Since(begin); took > test.most {
					t.Errorf("Drain took %v", took)
				}
				if s := c.mux.State(); s.Closing > 0 && test.most > 0 || s.Unsent {
					t.Errorf("%d CLOSEs are not answered, or not sent", s.Closing)
				}
				_ = s.Close()
				_ = c.Close()
				h.wait.Wait()
				if ended < test.sessions {
					t.Errorf("the server had %d handles, so that this shows nothing", ended)
				}
			})
		})
	}
}

// If the server does not answer CLOSE, closing the client still takes only a bounded time.
func TestDrainEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.tree = store.Mem(1 << 20)
		p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) { return nil, q.Type == wire.TypeClose }
		p.put(t, "f", pattern(1000, 1))
		c := p.client(t, Config{})
		for range 3 {
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		begin := time.Now()
		_ = c.Close()
		if took := time.Since(begin); took != time.Second {
			t.Errorf("Close took %v, want %v", took, time.Second)
		}
		p.wait.Wait()
	})
}
