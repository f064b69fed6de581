package sftpclient

import (
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A slowServer behaves like a server that is limited to a share of a core. In each slowPeriod it
// works for the time slowShare, and it needs the time slowMB for each mebibyte.
type slowServer struct {
	mu     sync.Mutex
	begin  time.Time     // guarded by mu
	worked time.Duration // working time without the pauses; guarded by mu
}

const (
	slowPeriod = 100 * time.Millisecond
	slowShare  = slowPeriod / 12
	slowMB     = 8 * time.Millisecond
)

// hook waits until the work for a request is done.
func (s *slowServer) hook(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
	bytes := len(q.Data)
	if q.Type == wire.TypeRead {
		bytes = int(q.Length)
	}
	s.mu.Lock()
	if s.begin.IsZero() {
		s.begin, s.worked = time.Now(), slowShare // the login took the first share
	}
	now := time.Since(s.begin)
	could := now/slowPeriod*slowShare + min(now%slowPeriod, slowShare)
	s.worked = max(s.worked, could) + slowMB*time.Duration(bytes)/(1<<20)
	done := s.worked/slowShare*slowPeriod + s.worked%slowShare
	s.mu.Unlock()
	time.Sleep(done - now)
	return nil, false
}

// An upload to a near server with a small share of a core has less than a mebibyte in flight,
// although each round trip takes long.
func TestSlowNearServer(t *testing.T) {
	const size = 64 << 20
	most, slow := 0, slowServer{}
	withFakeServer(t, Config{RoundTrip: 200 * time.Microsecond}, func(p *fakeServer) {
		far(p)
		p.link.latency, p.link.shared = 100*time.Microsecond, 1<<30
		p.tree, p.hook = newEndlessTree(size), slow.hook
	}, func(t *testing.T, _ *fakeServer, c *Client) {
		f, err := c.Create(t.Context(), "void")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if n, err := f.FillFrom(t.Context(), readerAtFunc(func(b []byte, _ int64) (int, error) {
			most = max(most, c.mux.State().InFlight)
			return len(b), nil
		}), 0, size); n != size || err != nil {
			t.Errorf("FillFrom = %d, %v", n, err)
		}
		if most > 1<<20 {
			t.Errorf("%d bytes in flight", most)
		}
	})
}

// While a file is read, the usual lower limit of bytes in flight applies, even to simultaneous
// uploads. After the last read has ended, uploads to a near server use the smaller limit again.
func TestFloorOfReads(t *testing.T) {
	withFakeServer(t, Config{RoundTrip: 200 * time.Microsecond}, func(p *fakeServer) {
		p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if q.Type == wire.TypeRead {
				time.Sleep(time.Second)
			}
			return nil, false
		}
		p.tree = newEndlessTree(1 << 20)
	}, func(t *testing.T, _ *fakeServer, c *Client) {
		want := func(when string, bytes int) {
			t.Helper()
			if n := c.mux.State().Window; n != bytes {
				t.Errorf("%s %d bytes may be in flight, want %d", when, n, bytes)
			}
		}
		f, err := c.Open(t.Context(), "void")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want("before the first transfer", 3*wire.CommonData)
		var reads sync.WaitGroup
		for range 2 {
			reads.Go(func() {
				if _, err := f.ReadAt(make([]byte, 100), 0); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(500 * time.Millisecond)
		}
		want("while two reads wait", pipeline.DefaultMinBytes)
		time.Sleep(600 * time.Millisecond)
		want("while the second waits", pipeline.DefaultMinBytes)
		reads.Wait()
		want("after both", 3*wire.CommonData)
	})
}

type readerAtFunc func([]byte, int64) (int, error)

func (f readerAtFunc) ReadAt(b []byte, off int64) (int, error) { return f(b, off) }
