package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// tripTime is the duration of a round trip in tests that count round trips.
const tripTime = time.Second

// trips returns how many round trips f takes.
func trips(p *fakeServer, f func()) float64 {
	begin := time.Now()
	f()
	return float64(time.Since(begin)) / float64(p.link.roundTrip())
}

// Frequent operations take the minimum number of round trips.
func TestRoundTrips(t *testing.T) {
	small := pattern(4000, 1)
	tests := []struct {
		name string
		want float64
		f    func(ctx context.Context, c *Client) error
	}{
		{"stat", 1, func(ctx context.Context, c *Client) error { _, err := c.Stat(ctx, "small"); return err }},
		{"fetch", 2, func(ctx context.Context, c *Client) error { return fetchAndCompare(ctx, c, "small", small) }},
		{"read", 2, func(ctx context.Context, c *Client) error {
			f, err := c.Open(ctx, "small")
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.ReadFull(f, make([]byte, len(small)))
			return err
		}},
		{"fetch from a store", 3, func(ctx context.Context, c *Client) error {
			f, err := c.Store("").Open(ctx, "small")
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.(*File).FetchTo(ctx, &growingFile{}, 0)
			return err
		}},
		// The round trips are for OPEN and LSTAT; for WRITE; for FSETSTAT and FSYNC; and for CLOSE
		// and RENAME.
		{"upload", 4, func(ctx context.Context, c *Client) error {
			u, err := c.Store("").Create(ctx, "new", store.Create{})
			if err != nil {
				return err
			}
			if _, err := u.WriteAt(small, 0); err != nil {
				return err
			}
			return u.Commit()
		}},
		// The round trips are for OPEN, for WRITE, and for CLOSE.
		{"write", 3, func(ctx context.Context, c *Client) error {
			f, err := c.Create(ctx, "written")
			if err != nil {
				return err
			}
			if _, err := f.Write(small); err != nil {
				return err
			}
			return f.Close()
		}},
		{"list", 2, func(ctx context.Context, c *Client) error { _, err := c.ReadDir(ctx, "dir"); return err }},
		{"rename", 1, func(ctx context.Context, c *Client) error { return c.Rename(ctx, "dir/f1", "dir/f2") }},
		{"remove", 1, func(ctx context.Context, c *Client) error { return c.Remove(ctx, "dir/f3") }},
		{"1000 stats", 4, func(ctx context.Context, c *Client) error {
			var wg sync.WaitGroup
			errs := make(chan error, 1000)
			for range 1000 {
				wg.Go(func() {
					_, err := c.Stat(ctx, "small")
					errs <- err
				})
			}
			wg.Wait()
			for range 1000 {
				if err := <-errs; err != nil {
					return err
				}
			}
			return nil
		}},
	}
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = tripTime / 2 }, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "small", small)
		if err := p.tree.Mkdir(t.Context(), "dir", 0); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			p.put(t, fmt.Sprint("dir/f", i), nil)
		}
		for _, tt := range tests {
			var err error
			got := trips(p, func() { err = tt.f(t.Context(), c) })
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			if got > tt.want {
				t.Errorf("%s took %.2f round trips, want %.0f", tt.name, got, tt.want)
			}
			time.Sleep(10 * tripTime)
		}
	})
}

// A session costs one round trip for the channel, and one for everything else.
func TestBeginsInTwoRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.link.latency = tripTime / 2
		var c *Client
		if got := trips(p, func() { c = p.client(t, Config{}) }); got > 2 {
			t.Errorf("beginning took %.2f round trips, want 2", got)
		}
		if got := c.measure(); got.ReadBytes != 255<<10 || got.WriteBytes != 255<<10 || got.Sessions != 1 || got.Conns != 1 {
			t.Errorf("it measures %+v", got)
		}
		p.end(t, c)
	})
}

// fetchAndCompare fetches a whole file and compares it.
func fetchAndCompare(ctx context.Context, c *Client, name string, want []byte) error {
	f, err := c.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	b := growingFile{b: make([]byte, 0, len(want))}
	n, err := f.FetchTo(ctx, &b, 0)
	if err != nil {
		return err
	}
	if n != int64(len(want)) || !race.Equal(b.b, want) {
		return fmt.Errorf("fetched %d bytes, other than the file's %d", n, len(want))
	}
	return nil
}

// A growingFile is an io.WriterAt. It belongs to one goroutine.
type growingFile struct {
	b      []byte
	writes int
	err    error // returned by write number failAt
	failAt int
	failed int64 // offset of the failed write
}

func (b *growingFile) WriteAt(p []byte, off int64) (int, error) {
	b.writes++
	if b.err != nil && b.writes == b.failAt {
		b.failed = off
		return 0, b.err
	}
	if n := int(off) + len(p); n > len(b.b) {
		if n > cap(b.b) { // grow rarely, because the race detector follows each copied byte
			b.b = append(make([]byte, 0, 3*n), b.b...)
		}
		b.b = b.b[:n]
	}
	return race.Copy(b.b[off:], p), nil
}

func TestRequestSizes(t *testing.T) {
	tests := []struct {
		name        string
		lim         wire.Limits
		noLimits    bool
		want        int // default size of a request, in bytes
		read, write int
	}{
		{name: "OpenSSH", lim: wire.Limits{Packet: 256 << 10, Read: 255 << 10, Write: 255 << 10}, read: 255 << 10, write: 255 << 10},
		{name: "no extension", noLimits: true, read: 32 << 10, write: 32 << 10},
		{name: "no bounds named", read: 32 << 10, write: 32 << 10},
		{name: "more than sense", lim: wire.Limits{Packet: 1 << 60, Read: 1 << 60, Write: 1 << 40}, read: 255 << 10, write: 255 << 10},
		{name: "short packets", lim: wire.Limits{Packet: 34000, Read: 1 << 20, Write: 1 << 20}, read: 34000 - 1<<10, write: 34000 - 1<<10},
		{name: "different", lim: wire.Limits{Read: 64 << 10, Write: 16 << 10}, read: 64 << 10, write: 16 << 10},
		{name: "wanted", want: 8 << 10, lim: wire.Limits{Read: 64 << 10, Write: 4 << 10}, read: 8 << 10, write: 4 << 10},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			withFakeServer(t, Config{RequestBytes: tt.want}, func(p *fakeServer) {
				p.lim = tt.lim
				if tt.noLimits {
					p.ext = p.ext.Without(wire.ExtLimits)
				}
			}, func(t *testing.T, p *fakeServer, c *Client) {
				if got := c.measure(); got.ReadBytes != tt.read || got.WriteBytes != tt.write {
					t.Errorf("requests of %d and %d bytes, want %d and %d", got.ReadBytes, got.WriteBytes, tt.read, tt.write)
				}
				data := pattern(300_000, 3)
				p.put(t, "f", data)
				if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// If the context of a request ends, the server still executes the request, and the client drops the
// answer.
func TestContextEnds(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = tripTime / 2 }, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(3<<20, 4)
		p.put(t, "f", data)
		ctx, cancel := context.WithTimeout(t.Context(), tripTime/4)
		defer cancel()
		if _, err := c.Stat(ctx, "f"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Stat: %v", err)
		}
		if _, err := c.Open(ctx, "f"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Open: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), tripTime/4)
		defer cancel()
		if _, err := c.Open(ctx, "f"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Open: %v", err)
		}
		time.Sleep(10 * tripTime)
		if n := p.openHandles(); n != 0 {
			t.Errorf("%d handles left open of an Open that nobody waited for", n)
		}

		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range []time.Duration{tripTime / 4, tripTime, 5 * tripTime / 4} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			n, err := f.FetchTo(ctx, &growingFile{}, 0)
			if te := (*TransferError)(nil); after < tripTime && (n != 0 || !errors.As(err, &te) || !te.Local || !errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("FetchTo for %v = %d, %v", after, n, err)
			}
			cancel()
			time.Sleep(10 * tripTime)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}

		// Reads fail when the context with which the file was opened ends.
		ctx, cancel = context.WithCancel(t.Context())
		if f, err = c.Open(ctx, "f"); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(tripTime/4, cancel)
		if _, err := f.ReadAt(make([]byte, 1<<20), 0); !errors.Is(err, context.Canceled) {
			t.Errorf("ReadAt: %v", err)
		}
		if _, err := f.Read(make([]byte, 10)); !errors.Is(err, context.Canceled) {
			t.Errorf("Read: %v", err)
		}
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// A connection to a silent server is abandoned, and everything that waits for it fails.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.link.latency = tripTime / 2
		p.hook = func(_ *fakeSession, q wire.Request, reply []byte) ([]byte, bool) {
			return nil, q.Type == wire.TypeRead
		}
		c := p.client(t, Config{Stall: 20 * time.Second})
		p.put(t, "f", pattern(1000, 1))
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_, err = f.ReadAt(make([]byte, 100), 0)
		if took := time.Since(begin); !errors.Is(err, ErrStalled) && !errors.Is(err, ErrConnectionLost) || took > 5*time.Minute {
			t.Errorf("ReadAt: %v after %v, want a stall", err, took)
		}
		_ = f.Close()
		_ = c.Close()
		p.wait.Wait()
	})
}

// The client waits for slow operations as long as the server is alive.
func TestWaitsForSlowCalls(t *testing.T) {
	withFakeServer(t, Config{Stall: 10 * time.Second}, func(p *fakeServer) {
		p.link.latency = time.Millisecond
		p.late = func(q wire.Request) time.Duration {
			if q.Extension == wire.ExtCheckFileName {
				return time.Hour
			}
			return 0
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		_, sum, err := c.Hash(t.Context(), "f", 0, 0, "sha256")
		if err != nil || string(sum) != "hash of f" {
			t.Errorf("Hash = %q, %v", sum, err)
		}
	})
}

func TestHandshakeTimeout(t *testing.T) {
	for _, silent := range []wire.Type{wire.TypeInit, wire.TypeExtended} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			p.hook = func(_ *fakeSession, q wire.Request, _ []byte) ([]byte, bool) { return nil, q.Type == silent }
			begin := time.Now()
			_, err := p.dial(Config{Timeout: 20 * time.Second})
			if !errors.Is(err, ErrStalled) || time.Since(begin) != 20*time.Second {
				t.Errorf("silent at %v: %v after %v", silent, err, time.Since(begin))
			}
			p.wait.Wait()
		})
	}
}

// If a server does not accept requests before its answer to INIT, the client tries again with a
// sequential handshake.
func TestCarefulHandshake(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.link.latency = 50 * time.Millisecond
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			return nil, s.n == 1 // the first session never answers
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		if c.measure().ReadBytes != 255<<10 {
			t.Errorf("limits not asked for: %+v", c.measure())
		}
		if _, err := c.Stat(t.Context(), "."); err != nil {
			t.Error(err)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newFakeServer()
		p.link.latency = tripTime / 2
		c := p.client(t, Config{})
		p.put(t, "f", pattern(50<<20, 1))
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		g, err := c.Create(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*tripTime/4, func() { _ = c.Close() })
		if _, err := f.FetchTo(t.Context(), &growingFile{}, 0); !errors.Is(err, ErrClosed) {
			t.Errorf("FetchTo: %v", err)
		}
		if _, err := c.Stat(t.Context(), "f"); !errors.Is(err, ErrClosed) {
			t.Errorf("Stat: %v", err)
		}
		if _, err := f.Read(make([]byte, 1)); !errors.Is(err, ErrClosed) {
			t.Errorf("Read: %v", err)
		}
		if _, err := g.WriteAt(make([]byte, 1), 0); !errors.Is(err, ErrClosed) {
			t.Errorf("WriteAt: %v", err)
		}
		if err := g.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("Close of a file: %v", err)
		}
		_ = f.Close()
		if err := c.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("Close again: %v", err)
		}
		p.wait.Wait()
	})
}

// Errors name the operation and the file, and have the right kind.
func TestErrors(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		ctx := t.Context()
		p.put(t, "f", nil)
		if err := c.MkdirAll(ctx, "d/e", 0o755); err != nil {
			t.Fatal(err)
		}
		tests := []struct {
			name string
			f    func() error
			want error
			text string
		}{
			{"open", func() error { _, err := c.Open(ctx, "none"); return err }, fs.ErrNotExist, "open none"},
			{"open a directory", func() error { _, err := c.Open(ctx, "d"); return err }, store.ErrNotRegular, "open d"},
			{"stat", func() error { _, err := c.Stat(ctx, "none"); return err }, fs.ErrNotExist, "stat none"},
			{"mkdir", func() error { return c.Mkdir(ctx, "d", 0o755) }, fs.ErrExist, "mkdir d"},
			{"mkdir -p over a file", func() error { return c.MkdirAll(ctx, "f", 0o755) }, fs.ErrExist, "mkdir f"},
			{"rmdir", func() error { return c.RemoveDir(ctx, "d") }, fs.ErrExist, "rmdir d"},
			{"remove", func() error { return c.Remove(ctx, "d") }, fs.ErrExist, "d"},
			{"remove nothing", func() error { return c.Remove(ctx, "none") }, fs.ErrNotExist, "remove none"},
			{"move", func() error { return c.Move(ctx, "f", "d") }, fs.ErrExist, "rename f d"},
			{"link", func() error { return c.Link(ctx, "f", "d") }, fs.ErrExist, "link f d"},
			{"symlink", func() error { return c.Symlink(ctx, "x", "f") }, fs.ErrExist, "symlink x f"},
			{"readlink", func() error { _, err := c.Readlink(ctx, "f"); return err }, fs.ErrInvalid, "readlink f"},
			{"list", func() error { _, err := c.ReadDir(ctx, "none"); return err }, fs.ErrNotExist, "readdir none"},
			{"NUL", func() error { _, err := c.Stat(ctx, "a\x00b"); return err }, fs.ErrInvalid, "stat"},
			{"empty", func() error { return c.Remove(ctx, "") }, fs.ErrInvalid, "remove"},
			{"too long", func() error { return c.Mkdir(ctx, strings.Repeat("x", 5000), 0) }, fs.ErrInvalid, "mkdir"},
			{"exclusive", func() error { _, err := c.OpenFile(ctx, "f", createNew, 0o600); return err }, fs.ErrExist, "open f"},
		}
		for _, tt := range tests {
			if err := tt.f(); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: %v, want %v and %q", tt.name, err, tt.want, tt.text)
			}
		}
	})
}
