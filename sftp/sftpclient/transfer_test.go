package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

const createNew = os.O_RDWR | os.O_CREATE | os.O_EXCL

// fileSizes are sizes around those of 32 KiB requests, of windows, and of the data that needs
// several sessions.
var fileSizes = []int{0, 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, 255 << 10, 1 << 20, 2<<20 + 7, 9<<20 + 1}

func uploadAll(ctx context.Context, c *Client, name string, data []byte) error {
	u, err := c.Store("").Create(ctx, name, store.Create{Size: int64(len(data))})
	if err != nil {
		return err
	}
	defer u.Close()
	n, err := u.(*upload).FillFrom(ctx, bytes.NewReader(data), 0, int64(len(data)))
	if err != nil {
		return err
	}
	if n != int64(len(data)) {
		return fmt.Errorf("FillFrom = %d of %d bytes", n, len(data))
	}
	return u.Commit()
}

func TestMovesFiles(t *testing.T) {
	peers := map[string]func(*fakeServer){
		"plain":         nil,
		"32 KiB":        func(p *fakeServer) { p.ext = p.ext.Without(wire.ExtLimits) },
		"far":           func(p *fakeServer) { p.link.latency = 40 * time.Millisecond },
		"slow":          func(p *fakeServer) { p.link = netLink{latency: 5 * time.Millisecond, rate: 3 << 20} },
		"one session":   func(p *fakeServer) { p.sessions, p.link.latency = 1, 20*time.Millisecond },
		"no extensions": func(p *fakeServer) { p.ext, p.link.latency = 0, time.Millisecond },
		"out of order": func(p *fakeServer) {
			p.link.latency = 10 * time.Millisecond
			p.late = func(q wire.Request) time.Duration {
				if q.Type != wire.TypeRead && q.Type != wire.TypeWrite {
					return 0
				}
				return time.Duration(q.Offset>>12*7919%50) * time.Millisecond
			}
		},
		"short answers": func(p *fakeServer) {
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type != wire.TypeRead {
					return nil, false
				}
				q.Length = min(q.Length, 1+q.Offset*31%20_000)
				return s.answer(q), true
			}
		},
	}
	for name, configure := range peers {
		t.Run(name, func(t *testing.T) {
			withFakeServer(t, Config{}, configure, func(t *testing.T, p *fakeServer, c *Client) {
				for i, size := range fileSizes {
					data := pattern(size, byte(i))
					name := fmt.Sprint("f", size)
					if err := uploadAll(t.Context(), c, name, data); err != nil {
						t.Errorf("put %d bytes: %v", size, err)
					}
					if !race.Equal(p.get(t, name), data) {
						t.Errorf("put %d bytes: the server has others", size)
					}
					if err := fetchAndCompare(t.Context(), c, name, data); err != nil {
						t.Errorf("get %d bytes: %v", size, err)
					}
					f, err := c.Open(t.Context(), name)
					if err != nil {
						t.Fatal(err)
					}
					b := make([]byte, size+10)
					if n, err := f.ReadAt(b, 0); n != size || err != io.EOF || !race.Equal(b[:n], data) {
						t.Errorf("ReadAt of %d bytes = %d, %v", size, n, err)
					}
					out := bytes.NewBuffer(make([]byte, 0, size+1))
					if n, err := f.WriteTo(out); n != int64(size) || err != nil || !race.Equal(out.Bytes(), data) {
						t.Errorf("WriteTo of %d bytes = %d, %v", size, n, err)
					}
					if off := int64(size / 3); true {
						var tail growingFile
						n, err := f.FetchTo(t.Context(), &tail, off)
						if n != int64(size)-off || err != nil || size > 0 && !bytes.Equal(tail.b[off:], data[off:]) {
							t.Errorf("FetchTo from %d of %d = %d, %v", off, size, n, err)
						}
					}
					if err := f.Close(); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Minute)
				if n := p.openHandles(); n != 0 {
					t.Errorf("%d handles left open", n)
				}
			})
		})
	}
}

// If a file is replaced while it is read, the client reads the old file to its end, and does not
// mix it with the new one.
func TestDoesNotMixFiles(t *testing.T) {
	const size = 40 << 20
	data := pattern(size, 5)
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = 50 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "f", data)
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		time.Sleep(2 * time.Second) // so that the new file's time differs
		p.put(t, "f", pattern(size, 77))
		var b growingFile
		if n, err := f.FetchTo(t.Context(), &b, 0); n != size || err != nil || !bytes.Equal(b.b, data) {
			t.Errorf("FetchTo = %d, %v", n, err)
		}
	})
}

// If a file is replaced by a shorter one while it is written, the client does not open the name
// again, so it writes no data into the new file.
func TestDoesNotWriteToAnotherFile(t *testing.T) {
	const size = 40 << 20
	data, other := pattern(size, 5), pattern(1000, 77)
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = 50 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		f, err := c.Create(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.FillFrom(t.Context(), bytes.NewReader(data), 0, 2000); n != 2000 || err != nil {
			t.Errorf("FillFrom = %d, %v", n, err)
		}
		p.put(t, "f", other)
		opens := p.count("OPEN")
		if n, err := f.FillFrom(t.Context(), bytes.NewReader(data), 2000, size-2000); n != size-2000 || err != nil {
			t.Errorf("FillFrom = %d, %v", n, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if p.count("OPEN") == opens {
			t.Error("there was no other session to open it on")
		}
		if got := p.get(t, "f"); !bytes.Equal(got, other) {
			t.Errorf("the new file has %d bytes, want its own %d", len(got), len(other))
		}
	})
}

// A slowEnds is a slow local file. The fourth call of WriteAt or ReadAt ends a context.
type slowEnds struct {
	growingFile
	calls int
	end   context.CancelFunc
}

func (s *slowEnds) slow() {
	time.Sleep(tripTime)
	if s.calls++; s.calls == 4 {
		s.end()
	}
}

func (s *slowEnds) WriteAt(p []byte, off int64) (int, error) {
	s.slow()
	return s.growingFile.WriteAt(p, off)
}

func (s *slowEnds) ReadAt(p []byte, off int64) (int, error) {
	s.slow()
	return copy(p, s.b[off:]), nil
}

// A transfer ends at once when its context ends, even if the server is faster than this side, so
// that there is always data to write.
func TestContextEndsInBusyTransfer(t *testing.T) {
	const size = 8 << 20
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(size, 6)
		p.put(t, "f", data)
		from, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		to, err := c.Create(t.Context(), "new")
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		for what, move := range map[string]func(context.Context, *slowEnds) (int64, error){
			"get": func(ctx context.Context, s *slowEnds) (int64, error) { return from.FetchTo(ctx, s, 0) },
			"put": func(ctx context.Context, s *slowEnds) (int64, error) { return to.FillFrom(ctx, s, 0, size) },
		} {
			s := &slowEnds{}
			s.b = bytes.Clone(data)
			ctx, cancel := withCancel(t)
			s.end = cancel
			n, err := move(ctx, s)
			if te := (*TransferError)(nil); !errors.As(err, &te) || !te.Local || !errors.Is(err, context.Canceled) || n >= size {
				t.Errorf("%s: %d, %v", what, n, err)
			}
			if s.calls != 4 {
				t.Errorf("%s: %d calls, of which the fourth ends the context", what, s.calls)
			}
			cancel()
		}
	})
}

// An error says which side has failed.
func TestTransferErrors(t *testing.T) {
	const size = 3 << 20
	data := pattern(size, 5)
	ours := errors.New("disk full")
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.ext = p.ext.Without(wire.ExtLimits)
		p.link.latency = 5 * time.Millisecond
		p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
			if (q.Type == wire.TypeRead || q.Type == wire.TypeWrite) && q.Offset == 1<<20 {
				return wire.AppendStatus(nil, q.ID, wire.PermissionDenied, "not so far"), true
			}
			return nil, false
		}
	}, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "f", data)
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var te *TransferError
		var b growingFile
		n, err := f.FetchTo(t.Context(), &b, 0)
		if n != 1<<20 || !errors.As(err, &te) || te.Local || te.Offset != n || !errors.Is(err, fs.ErrPermission) || !bytes.Equal(b.b[:n], data[:n]) {
			t.Errorf("FetchTo of a file the server cannot read = %d, %v", n, err)
		}
		for _, at := range []int{1, 2, 17} {
			b := growingFile{err: ours, failAt: at}
			n, err := f.FetchTo(t.Context(), &b, 0)
			// Data arrives in any order, and missing data before the failure is still fetched.
			if b.writes < at || n > b.failed || !errors.As(err, &te) || !te.Local || !errors.Is(err, ours) || !bytes.Equal(b.b[:n], data[:n]) {
				t.Errorf("FetchTo to a disk that fails at its write %d, of offset %d = %d, %v", at, b.failed, n, err)
			}
		}
		if n, err := f.ReadAt(make([]byte, size), 0); n != 1<<20 || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("ReadAt = %d, %v", n, err)
		}
		read, err := io.Copy(io.Discard, f)
		if read != 1<<20 || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("io.Copy = %d, %v", read, err)
		}

		// The file is truncated after the confirmed bytes.
		g, err := c.Create(t.Context(), "g")
		if err != nil {
			t.Fatal(err)
		}
		n, err = g.FillFrom(t.Context(), bytes.NewReader(data), 0, size)
		if n != 1<<20 || !errors.As(err, &te) || te.Local || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("FillFrom to a server that fails = %d, %v", n, err)
		}
		if got := p.get(t, "g"); !bytes.Equal(got, data[:n]) {
			t.Errorf("the server is left with %d bytes, want %d", len(got), n)
		}
		for _, src := range []*patternSource{{data: data, err: ours, failAt: 300_000}, {data: data[:500_000], err: io.EOF, failAt: 500_000}} {
			if err := g.Truncate(0); err != nil {
				t.Fatal(err)
			}
			n, err = g.FillFrom(t.Context(), src, 0, size)
			want := ours
			if src.err == io.EOF {
				want = io.ErrUnexpectedEOF
			}
			if n > int64(src.failAt) || !errors.As(err, &te) || !te.Local || !errors.Is(err, want) {
				t.Errorf("FillFrom of a source that fails at %d = %d, %v", src.failAt, n, err)
			}
			if got := p.get(t, "g"); !bytes.Equal(got, data[:n]) {
				t.Errorf("the server is left with %d bytes, want %d", len(got), n)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A patternSource is a reader that fails from a certain offset.
type patternSource struct {
	data   []byte
	err    error
	failAt int
}

func (s *patternSource) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(s.failAt) {
		return 0, s.err
	}
	n := copy(p[:min(len(p), s.failAt-int(off))], s.data[off:])
	if n < len(p) {
		return n, s.err
	}
	return n, nil
}

// Many simultaneous transfers share the bytes that may be in flight.
func TestManyFilesAtOnce(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link = netLink{latency: 10 * time.Millisecond, rate: 50 << 20} }, func(t *testing.T, p *fakeServer, c *Client) {
		var wg sync.WaitGroup
		for i := range 200 {
			data := pattern(i*i*10, byte(i))
			p.put(t, fmt.Sprint("f", i), data)
			wg.Go(func() {
				if err := fetchAndCompare(t.Context(), c, fmt.Sprint("f", i), data); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if err := uploadAll(t.Context(), c, fmt.Sprint("g", i), data); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range 200 {
			if !bytes.Equal(p.get(t, fmt.Sprint("g", i)), pattern(i*i*10, byte(i))) {
				t.Errorf("file %d has other bytes", i)
			}
		}
	})
}

// If a client copies a file to itself, a writer that waits for the client does not block its
// reads.
func TestCopiesToItself(t *testing.T) {
	withFakeServer(t, Config{Memory: 1 << 20}, func(p *fakeServer) { p.link.latency = 5 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(8<<20, 3)
		p.put(t, "f", data)
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		u, err := c.Store("").Create(t.Context(), "g", store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		if n, err := f.FetchTo(t.Context(), u, 0); n != int64(len(data)) || err != nil {
			t.Errorf("FetchTo = %d, %v", n, err)
		}
		if err := u.Commit(); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(p.get(t, "g"), data) {
			t.Error("the copy has other bytes")
		}
		if n, err := u.(*upload).FillFrom(t.Context(), f, 0, -1); n != 0 || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("FillFrom after Commit = %d, %v", n, err)
		}
	})
}

// Without overlap, there is never more than one data request in flight.
func TestWithoutOverlap(t *testing.T) {
	for _, n := range []int{1, 2, 10} {
		var mu sync.Mutex
		out, most := 0, 0
		peak := func() (was int) { // returns the largest number since the last call
			mu.Lock()
			defer mu.Unlock()
			was, most = most, 0
			return was
		}
		withFakeServer(t, Config{Requests: n, RequestBytes: 8 << 10}, func(p *fakeServer) {
			p.link.latency = tripTime / 2
			p.late = func(q wire.Request) time.Duration {
				if q.Type != wire.TypeRead && q.Type != wire.TypeWrite {
					return 0
				}
				mu.Lock()
				defer mu.Unlock()
				out++
				most = max(most, out)
				time.AfterFunc(tripTime, func() {
					mu.Lock()
					defer mu.Unlock()
					out--
				})
				return tripTime
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			data := pattern(300_000, 1)
			p.put(t, "f", data)
			if err := fetchAndCompare(t.Context(), c, "f", data); err != nil {
				t.Error(err)
			}
			if err := uploadAll(t.Context(), c, "g", data); err != nil {
				t.Error(err)
			}
			if most := peak(); most > n || n > 1 && most < n {
				t.Errorf("%d requests at once, want %d", most, n)
			}
			// The limit applies to many small files together too, although they have fewer bytes.
			var files sync.WaitGroup
			for i := range 20 {
				files.Go(func() {
					name, data := fmt.Sprint("small", i), pattern(1000, byte(i))
					if err := uploadAll(t.Context(), c, name, data); err != nil {
						t.Error(err)
					}
					if err := fetchAndCompare(t.Context(), c, name, data); err != nil {
						t.Error(err)
					}
				})
			}
			files.Wait()
			if most := peak(); most > n || n > 1 && most < n {
				t.Errorf("%d requests of small files at once, want %d", most, n)
			}
		})
	}
}

// A client can copy between two of its own files, even if so few bytes may be in flight that either
// side could use them all: writes that wait for data, or data that waits to be written.
func TestCopyWithinClient(t *testing.T) {
	const size = 8 << 20
	for what, move := range map[string]func(ctx context.Context, from, to *File) (int64, error){
		"FillFrom": func(ctx context.Context, from, to *File) (int64, error) { return to.FillFrom(ctx, from, 0, size) },
		"FetchTo":  func(ctx context.Context, from, to *File) (int64, error) { return from.FetchTo(ctx, to, 0) },
		"FillFrom in FetchTo": func(ctx context.Context, from, to *File) (int64, error) {
			return from.FetchTo(ctx, writerAtFunc(func(p []byte, off int64) (int, error) {
				n, err := to.FillFrom(ctx, readerAtFunc(func(b []byte, at int64) (int, error) {
					return copy(b, p[at-off:]), nil
				}), off, int64(len(p)))
				return int(n), err
			}), 0)
		},
	} {
		t.Run(what, func(t *testing.T) {
			withFakeServer(t, Config{Memory: 512 << 10}, func(p *fakeServer) { p.link.latency = 20 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
				var all sync.WaitGroup
				for i := range 3 {
					p.put(t, fmt.Sprint("from", i), pattern(size, byte(i)))
					all.Go(func() {
						from, err := c.Open(t.Context(), fmt.Sprint("from", i))
						if err != nil {
							t.Error(err)
							return
						}
						defer from.Close()
						to, err := c.Create(t.Context(), fmt.Sprint("to", i))
						if err != nil {
							t.Error(err)
							return
						}
						n, err := move(t.Context(), from, to)
						if err := errors.Join(err, to.Close()); n != size || err != nil {
							t.Errorf("%d, %v", n, err)
						}
					})
				}
				all.Wait()
				for i := range 3 {
					if name := fmt.Sprint("to", i); !bytes.Equal(p.get(t, name), pattern(size, byte(i))) {
						t.Errorf("%s has other bytes", name)
					}
				}
			})
		})
	}
}

type writerAtFunc func(p []byte, off int64) (int, error)

func (f writerAtFunc) WriteAt(p []byte, off int64) (int, error) { return f(p, off) }

// Data that waits for a slow writer is bounded, too.
func TestMemoryOfSlowWriter(t *testing.T) {
	const memory = 1 << 20
	withFakeServer(t, Config{Memory: memory}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "f", pattern(16<<20, 1))
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		most := 0
		_, err = f.FetchTo(t.Context(), writerAtFunc(func(p []byte, _ int64) (int, error) {
			time.Sleep(time.Second)
			most = max(most, c.mux.State().InFlight)
			return len(p), nil
		}), 0)
		if err != nil || most == 0 || most > memory {
			t.Errorf("%d bytes in flight, %v", most, err)
		}
	})
}
