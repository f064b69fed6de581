package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// One session moves two mebibytes in a round trip. If the path has room for more, the client opens
// more sessions, first on one connection, then on others.
func TestFillsLongPaths(t *testing.T) {
	const size = 192 << 20
	run := func(t *testing.T, conns, sessions int, put bool) (took time.Duration, path measured, p *fakeServer) {
		synctest.Test(t, func(t *testing.T) {
			p = newFakeServer()
			p.link.latency = 50 * time.Millisecond
			p.conns, p.sessions = conns, sessions
			p.tree = endlessTree{p.tree, size, &atomic.Int64{}}
			c := p.client(t, Config{Conns: 1 + conns})
			begin := time.Now()
			if put {
				f, err := c.Create(t.Context(), "void")
				if err != nil {
					t.Fatal(err)
				}
				if n, err := f.FillFrom(t.Context(), zeroSource{}, 0, size); n != size || err != nil {
					t.Errorf("FillFrom = %d, %v", n, err)
				}
				defer f.Close()
			} else {
				f, err := c.Open(t.Context(), "void")
				if err != nil {
					t.Fatal(err)
				}
				if n, err := f.FetchTo(t.Context(), nowhere{}, 0); n != size || err != nil {
					t.Errorf("FetchTo = %d, %v", n, err)
				}
				defer f.Close()
			}
			took, path = time.Since(begin), c.measure()
			_ = c.Close()
			p.wait.Wait()
		})
		return took, path, p
	}
	for _, put := range []bool{false, true} {
		one, _, _ := run(t, 0, 1, put)
		eight, path8, _ := run(t, 0, 10, put)
		more, path16, p := run(t, 1, 10, put)
		refused, pathR, pR := run(t, 0, 3, put)
		t.Logf("put %v: one session %v; eight %v (%d sessions); two connections %v (%d sessions on %d); three allowed %v (%d sessions)",
			put, one, eight, path8.Sessions, more, path16.Sessions, path16.Conns, refused, pathR.Sessions)
		if one < 4*eight {
			t.Errorf("put %v: eight sessions took %v, one %v", put, eight, one)
		}
		if more >= eight || path16.Conns != 2 || path16.Sessions <= 8 || p.made != 2 {
			t.Errorf("put %v: two connections took %v with %+v, one %v", put, more, path16, eight)
		}
		if pathR.Sessions != 3 || pR.refused == 0 || pR.refused > 5 || refused > one/2 {
			t.Errorf("put %v: with three sessions allowed %v, %+v, refused %d times", put, refused, pathR, pR.refused)
		}
	}
}

// Four connections have four times the throughput of one, and no useful session is idle.
func TestFillsConnections(t *testing.T) {
	size, rate := int64(600<<20), int64(40<<20)
	if race.Enabled { // the race detector follows each byte: use less data, and fewer sessions on a connection
		size, rate = size/4, rate/4
	}
	run := func(t *testing.T, conns int, put bool) (took time.Duration, path measured) {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			p.link.latency, p.link.shared = 50*time.Millisecond, rate
			p.conns, p.sessions = conns-1, 10
			p.tree = endlessTree{p.tree, size, &atomic.Int64{}}
			c := p.client(t, Config{Conns: conns})
			open := c.Open
			if put {
				open = c.Create
			}
			f, err := open(t.Context(), "void")
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if put {
				_, err = f.FillFrom(t.Context(), zeroSource{}, 0, size)
			} else {
				_, err = f.FetchTo(t.Context(), nowhere{}, 0)
			}
			if err != nil {
				t.Error(err)
			}
			took, path = time.Since(begin), c.measure()
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			_ = c.Close()
			p.wait.Wait()
		})
		return took, path
	}
	for _, put := range []bool{false, true} {
		one, _ := run(t, 1, put)
		four, path := run(t, 4, put)
		t.Logf("put %v: one %v, four %v, %+v", put, one, four, path)
		if four > one*2/5 || path.Conns != 4 {
			t.Errorf("put %v: on one connection %v, on four %v with %+v", put, one, four, path)
		}
	}
}

// A small file uses one connection, for any round trip, even if its size is not known.
func TestKeepsToOneConnection(t *testing.T) {
	small := pattern(4000, 1)
	for name, f := range map[string]func(ctx context.Context, c *Client) error{
		"write": func(ctx context.Context, c *Client) error {
			f, err := c.Create(ctx, "new")
			if err != nil {
				return err
			}
			if _, err := f.Write(small); err != nil {
				return err
			}
			return f.Close()
		},
		"fill without an end": func(ctx context.Context, c *Client) error {
			f, err := c.Create(ctx, "new")
			if err != nil {
				return err
			}
			if _, err := f.FillFrom(ctx, bytes.NewReader(small), 0, -1); err != nil {
				return err
			}
			return f.Close()
		},
		"read of a file that may be written": func(ctx context.Context, c *Client) error {
			f, err := c.OpenFile(ctx, "f", os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.ReadFull(f, make([]byte, len(small)))
			return err
		},
		"fetch":  func(ctx context.Context, c *Client) error { return fetchAndCompare(ctx, c, "f", small) },
		"upload": func(ctx context.Context, c *Client) error { return uploadAll(ctx, c, "new", small) },
	} {
		t.Run(name, func(t *testing.T) {
			withFakeServer(t, Config{}, func(p *fakeServer) {
				p.put(t, "f", small)
				p.link.latency, p.conns = 50*time.Millisecond, 10
			}, func(t *testing.T, p *fakeServer, c *Client) {
				if err := f(t.Context(), c); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				p.mu.Lock()
				defer p.mu.Unlock()
				if p.made != 1 {
					t.Errorf("%d connections", p.made)
				}
			})
		})
	}
}

// An endlessTree is a store with one additional file, which consists of zeros and accepts any data.
type endlessTree struct {
	store.Tree
	size int64
	end  *atomic.Int64 // end of the written data
}

// newEndlessTree returns an endlessTree whose only file is that additional one, with the given
// size.
func newEndlessTree(size int64) store.Tree {
	return endlessTree{store.Mem(0), size, &atomic.Int64{}}
}

func (v endlessTree) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if name == "void" {
		return storewire.InfoOf(name, wire.Attrs{Flags: wire.AttrSize | wire.AttrMode, Size: v.size, Mode: wire.ModeRegular}), nil
	}
	return v.Tree.Stat(ctx, name)
}

type endlessFile struct {
	store.Handle
	v endlessTree
}

func (v endlessTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := v.Tree.OpenFile(ctx, name, a)
	if err != nil && name == "void" {
		h, err = v.Tree.OpenFile(ctx, name, store.Access{Read: true, Write: true, Create: true})
	}
	if name == "void" && err == nil {
		h = endlessFile{h, v}
	}
	return h, err
}

func (f endlessFile) ReadAt(p []byte, off int64) (int, error) {
	if off >= f.v.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), f.v.size-off))
	clear(p[:n])
	return n, nil
}

func (f endlessFile) WriteAt(p []byte, off int64) (int, error) {
	f.v.end.Store(max(f.v.end.Load(), off+int64(len(p))))
	return len(p), nil
}

func (f endlessFile) Stat() (fs.FileInfo, error) {
	fi, err := f.Handle.Stat()
	if err != nil {
		return nil, err
	}
	a, _ := storewire.AttrsOf(fi)
	a.SetSize(f.v.end.Load())
	return storewire.InfoOf(fi.Name(), a), nil
}

type nowhere struct{}

func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// A session may be lost after any number of bytes, in either direction: its pending requests move
// to other sessions, or to a replacement.
func TestLosesSessions(t *testing.T) {
	const size = 600_000
	data := pattern(size, 9)
	lose := func(t *testing.T, put, back bool, after int64) {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			p.ext = p.ext.Without(wire.ExtLimits)
			p.link.latency = 10 * time.Millisecond
			c := p.client(t, Config{})
			p.put(t, "f", data)
			var u store.Upload
			var f *File
			var err error
			if put {
				u, err = c.Store("").Create(t.Context(), "g", store.Create{})
			} else {
				f, err = c.Open(t.Context(), "f")
			}
			if err != nil {
				t.Fatal(err)
			}
			s := p.open[0].here
			pipe := s.out
			if back {
				pipe = s.in
			}
			pipe.mu.Lock()
			pipe.cutAt = pipe.total + after
			pipe.mu.Unlock()
			// When one direction of the stream ends, end the other direction too.
			p.wait.Go(func() {
				for ended := false; !ended; {
					time.Sleep(time.Millisecond)
					pipe.mu.Lock()
					ended = pipe.closed
					pipe.mu.Unlock()
				}
				time.Sleep(30 * time.Millisecond)
				s.in.end(true)
				s.out.end(true)
			})
			if put {
				n, err := u.(*upload).FillFrom(t.Context(), bytes.NewReader(data), 0, -1)
				if n != size || err != nil {
					t.Fatalf("lost after %d bytes: FillFrom = %d, %v", after, n, err)
				}
				if err := u.Commit(); err != nil {
					t.Fatalf("lost after %d bytes: Commit: %v", after, err)
				}
				if !bytes.Equal(p.get(t, "g"), data) {
					t.Fatalf("lost after %d bytes: the file has other bytes", after)
				}
			} else {
				var b growingFile
				n, err := f.FetchTo(t.Context(), &b, 0)
				if n != size || err != nil || !bytes.Equal(b.b, data) {
					t.Fatalf("lost after %d bytes: FetchTo = %d, %v", after, n, err)
				}
				_ = f.Close()
			}
			s.in.end(true) // in case fewer than `after` bytes were moved
			s.out.end(true)
			p.end(t, c)
		})
	}
	for _, put := range []bool{false, true} {
		for _, back := range []bool{false, true} {
			const most = 150
			n := int64(race.Fewer(most, 6))
			for i := range n {
				lose(t, put, back, 1+i*most/n)
			}
			for _, after := range []int64{500, 32<<10 - 5, 32 << 10, 32<<10 + 13, 32<<10 + 40, 70_000, 400_000, 599_990, 600_100} {
				lose(t, put, back, after)
			}
		}
	}
}

// The client keeps the data of File.Write until the server has confirmed it. So no data is missing
// if sessions are lost before that.
func TestLosesSessionsWhileWriting(t *testing.T) {
	data := pattern(600_000, 9)
	for _, piece := range []int{5000, 100_000} {
		for after := range 12 {
			withFakeServer(t, Config{}, func(p *fakeServer) {
				p.ext, p.link.latency = p.ext.Without(wire.ExtLimits), 10*time.Millisecond
			}, func(t *testing.T, p *fakeServer, c *Client) {
				f, err := c.Create(t.Context(), "f")
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(time.Duration(1+10*after)*time.Millisecond, p.open[0].kill)
				for b := range slices.Chunk(data, piece) {
					if n, err := f.Write(b); n != len(b) || err != nil {
						t.Fatalf("Write = %d, %v", n, err)
					}
					time.Sleep(time.Duration(piece) * 200 * time.Nanosecond) // 120 ms in total
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				if p.opened < 2 {
					t.Error("the session was not lost")
				}
				if !bytes.Equal(p.get(t, "f"), data) {
					t.Errorf("pieces of %d, lost at step %d: the server has other bytes", piece, after)
				}
			})
		}
	}
}

// If one of several sessions is lost, the others continue.
func TestLosesOneOfManySessions(t *testing.T) {
	const size = 40 << 20
	data := pattern(size, 5)
	for _, put := range []bool{false, true} {
		withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = 50 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
			p.put(t, "f", data)
			for i := range 4 {
				time.AfterFunc(time.Duration(1200+150*i)*time.Millisecond, func() {
					p.mu.Lock()
					open := p.open
					p.mu.Unlock()
					open[len(open)*i/4].kill()
				})
			}
			var err error
			if put {
				err = uploadAll(t.Context(), c, "g", data)
				if !bytes.Equal(p.get(t, "g"), data) {
					t.Error("the server has other bytes")
				}
			} else {
				err = fetchAndCompare(t.Context(), c, "f", data)
			}
			if err != nil {
				t.Errorf("put %v: %v", put, err)
			}
		})
	}
}

// If there is neither a session nor a connection, calls return an error at once.
func TestLosesConnection(t *testing.T) {
	for _, conns := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			p := newFakeServer()
			p.link.latency = 20 * time.Millisecond
			p.conns = conns
			data := pattern(30<<20, 6)
			p.put(t, "f", data)
			c := p.client(t, Config{Conns: 2})
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(200*time.Millisecond, p.endFirst)
			var b growingFile
			n, err := f.FetchTo(t.Context(), &b, 0)
			if conns == 0 && (!errors.Is(err, ErrConnectionLost) || n >= int64(len(data)) || !bytes.Equal(b.b[:n], data[:n])) {
				t.Errorf("FetchTo = %d, %v, want a lost connection", n, err)
			}
			if conns == 1 && (err != nil || !bytes.Equal(b.b, data)) {
				t.Errorf("FetchTo = %d, %v, want a second connection to take over", n, err)
			}
			_, err = c.Stat(t.Context(), "f")
			if conns == 0 && !errors.Is(err, ErrConnectionLost) || conns == 1 && err != nil {
				t.Errorf("Stat: %v", err)
			}
			_ = f.Close()
			_ = c.Close()
			p.wait.Wait()
		})
	}
}
