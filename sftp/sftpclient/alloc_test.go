package sftpclient

import (
	"context"
	"encoding/binary"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A zeroCarrier answers like a server with one endless file of zeros, without allocating. It is
// both a carrier and the carrier's only stream.
type zeroCarrier struct {
	mu      sync.Mutex
	changed sync.Cond
	in      []byte // received requests; guarded by mu
	out     []byte // bytes to be read; guarded by mu
	zeros   int    // number of zero bytes after out; guarded by mu
	pending []zeroReply
	skip    int // remaining bytes of a WRITE; guarded by mu
	closed  bool
}

// A zeroReply is an answer that is not in zeroCarrier.out yet.
type zeroReply struct {
	id uint32
	n  int // bytes of data; -1 for a STATUS
}

func (z *zeroCarrier) Open(context.Context, bool) (io.ReadWriteCloser, error) { return z, nil }
func (z *zeroCarrier) Ping() error                                            { return nil }

func (z *zeroCarrier) Write(p []byte) (int, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	n := len(p)
	if z.skip > 0 {
		some := min(z.skip, len(p))
		z.skip, p = z.skip-some, p[some:]
	}
	z.in = append(z.in, p...)
	at := 0
	for len(z.in)-at >= wire.HeaderSize {
		b := z.in[at:]
		size := 4 + int(binary.BigEndian.Uint32(b))
		id := binary.BigEndian.Uint32(b[5:])
		t := wire.Type(b[4])
		if t == wire.TypeWrite && len(b) >= 100 || len(b) >= size {
			z.answer(t, id, b[:min(size, len(b))])
		} else {
			break
		}
		if size > len(b) {
			z.skip = size - len(b)
		}
		at += min(size, len(b))
	}
	z.in = append(z.in[:0], z.in[at:]...)
	z.changed.Broadcast()
	return n, nil
}

func (z *zeroCarrier) answer(t wire.Type, id uint32, b []byte) {
	switch t {
	case wire.TypeInit:
		z.out = wire.AppendVersion(z.out, 3, nil)
	case wire.TypeExtended:
		z.out = wire.AppendLimitsReply(z.out, id, wire.Limits{Read: wire.CommonData, Write: wire.CommonData})
	case wire.TypeOpen:
		z.out = wire.AppendHandle(z.out, id, "zeros")
	case wire.TypeStat:
		var a wire.Attrs
		a.SetSize(1 << 50)
		a.SetMode(wire.ModeRegular)
		z.out = wire.AppendAttrs(z.out, id, a)
	case wire.TypeRead:
		z.pending = append(z.pending, zeroReply{id, int(binary.BigEndian.Uint32(b[len(b)-4:]))})
	default:
		z.pending = append(z.pending, zeroReply{id, -1})
	}
}

func (z *zeroCarrier) Read(p []byte) (int, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for {
		switch {
		case z.closed:
			return 0, io.EOF
		case len(z.out) > 0:
			n := copy(p, z.out)
			z.out = append(z.out[:0], z.out[n:]...)
			return n, nil
		case z.zeros > 0:
			n := min(z.zeros, len(p))
			clear(p[:n])
			z.zeros -= n
			return n, nil
		case len(z.pending) > 0:
			r := z.pending[0]
			z.pending = append(z.pending[:0], z.pending[1:]...)
			if r.n < 0 {
				z.out = wire.AppendStatus(z.out, r.id, wire.OK, "")
			} else {
				z.out = wire.AppendDataHeader(z.out, r.id, r.n)
				z.zeros = r.n
			}
		default:
			z.changed.Wait()
		}
	}
}

func (z *zeroCarrier) Close() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.closed = true
	z.changed.Broadcast()
	return nil
}

func newZerosClient(t testing.TB, config Config) *Client {
	config.Conns, config.Sessions = 1, 1
	z := &zeroCarrier{}
	z.changed.L = &z.mu
	c, err := newClient(context.Background(), z, true, config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// zeroSource is a file of zeros.
type zeroSource struct{}

func (zeroSource) ReadAt(p []byte, _ int64) (int, error) { clear(p); return len(p), nil }
func (zeroSource) Read(p []byte) (int, error)            { clear(p); return len(p), nil }

// Requests do not allocate: a transfer of two thousand requests allocates no more than one of a
// thousand.
func TestAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector empties pools at random")
	}
	const chunks = 1000
	ways := map[string]func(f *File, n int64) error{
		"FillFrom": func(f *File, n int64) error {
			_, err := f.FillFrom(context.Background(), zeroSource{}, 0, n)
			return err
		},
		"ReadAt": func(f *File, n int64) error { _, err := f.ReadAt(zeroArena[:n], 1<<40); return err },
		"Write": func(f *File, n int64) error {
			for range n >> 10 {
				if _, err := f.Write(zeroArena[:1<<10]); err != nil {
					return err
				}
			}
			return nil
		},
		"Read": func(f *File, n int64) error {
			for left := n; left > 0; {
				got, err := f.Read(zeroArena[:1<<10])
				if left -= int64(got); err != nil {
					return err
				}
			}
			return nil
		},
		"ReadFrom": func(f *File, n int64) error {
			_, err := f.ReadFrom(io.LimitReader(zeroSource{}, n))
			return err
		},
	}
	for name, way := range ways {
		synctest.Test(t, func(t *testing.T) {
			c := newZerosClient(t, Config{RequestBytes: 32 << 10})
			defer c.Close()
			f, err := c.Create(t.Context(), "zeros")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			run := func(n int64) uint64 {
				for range 2 { // the first time fills pools and tables
					if err := way(f, n); err != nil {
						t.Fatalf("%s: %v (%v)", name, err, c.mux.State().LastLoss)
					}
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if err := way(f, n); err != nil {
					t.Fatal(err)
				}
				runtime.ReadMemStats(&after)
				return after.Mallocs - before.Mallocs
			}
			one, two := run(chunks*32<<10), run(2*chunks*32<<10)
			if two > one+chunks/10 {
				t.Errorf("%s: %d allocations for %d requests, %d for %d", name, one, chunks, two, 2*chunks)
			}
		})
	}
}

var zeroArena = make([]byte, 2000*32<<10)
