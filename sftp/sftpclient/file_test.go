package sftpclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// Small buffers cost no more than large ones: the server receives large requests, many at once.
func TestSmallBuffers(t *testing.T) {
	const size = 8 << 20
	data := pattern(size, 2)
	for _, buf := range []int{1 << 10, 16 << 10, 32 << 10, 128 << 10, 1 << 20, 4 << 20} {
		withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = 10 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
			f, err := c.Create(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			wrote := trips(p, func() {
				for b := range slices.Chunk(data, buf) {
					if n, err := f.Write(b); n != len(b) || err != nil {
						t.Fatalf("Write = %d, %v", n, err)
					}
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
			if !bytes.Equal(p.get(t, "f"), data) {
				t.Errorf("buffers of %d: the server has other bytes", buf)
			}
			if f, err = c.Open(t.Context(), "f"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 0, size)
			read := trips(p, func() {
				b := make([]byte, buf)
				for {
					n, err := f.Read(b)
					got = append(got, b[:n]...)
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			})
			if !bytes.Equal(got, data) {
				t.Errorf("buffers of %d: other bytes read", buf)
			}
			// 8 MiB are 4 windows of a session, and 33 requests.
			if wrote > 12 || read > 12 {
				t.Errorf("buffers of %d: writing took %.1f round trips, reading %.1f", buf, wrote, read)
			}
			if r, w := p.count("READ"), p.count("WRITE"); r > 60 || w > 60 {
				t.Errorf("buffers of %d: %d READs, %d WRITEs", buf, r, w)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// If a program reads only the beginning of a file, the client does not fetch the rest.
func TestReadsAheadOfReadersOnly(t *testing.T) {
	withFakeServer(t, Config{}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(20<<20, 2)
		p.put(t, "f", data)
		f, err := c.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		readAt := func(n int, off int64) {
			t.Helper()
			b := make([]byte, n)
			if _, err := f.ReadAt(b, off); err != nil || !bytes.Equal(b, data[off:off+int64(n)]) {
				t.Errorf("ReadAt of %d bytes at %d: other bytes, or %v", n, off, err)
			}
		}
		if _, err := io.ReadFull(f, make([]byte, 1000)); err != nil {
			t.Error(err)
		}
		if n := p.count("READ"); n > 1 {
			t.Errorf("%d READs for 1000 bytes", n)
		}
		for _, off := range []int64{5 << 20, 1 << 20, 9 << 20} {
			readAt(100, off)
		}
		if n := p.count("READ"); n > 4 {
			t.Errorf("%d READs for 1000 bytes and three times 100", n)
		}
		// Sequential ReadAts read ahead too.
		before := p.count("READ")
		for off := range int64(1000) {
			readAt(4000, 10<<20+4000*off)
		}
		if n := p.count("READ") - before; n > 60 {
			t.Errorf("%d READs for 4 MB in order", n)
		}
	})
}

func TestWithoutBuffers(t *testing.T) {
	withFakeServer(t, Config{NoReadAhead: true, NoWriteBehind: true}, nil, func(t *testing.T, p *fakeServer, c *Client) {
		f, err := c.Create(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		data := pattern(300_000, 3)
		for b := range slices.Chunk(data, 10_000) {
			if _, err := f.Write(b); err != nil {
				t.Fatal(err)
			}
			if got := p.get(t, "f"); !bytes.HasSuffix(got, b) {
				t.Fatal("Write returned before the server had the bytes")
			}
		}
		if n := p.count("WRITE"); n != 30 {
			t.Errorf("%d WRITEs, want 30", n)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Error(err)
		}
		var got []byte
		b := make([]byte, 10_000)
		for {
			n, err := f.Read(b)
			got = append(got, b[:n]...)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, data) {
			t.Error("other bytes read")
		}
		if n := p.count("READ"); n != 31 {
			t.Errorf("%d READs, want 31", n)
		}
		if _, err := f.Seek(100, io.SeekStart); err != nil {
			t.Error(err)
		}
		if n, err := f.ReadFrom(bytes.NewReader(data)); n != int64(len(data)) || err != nil {
			t.Errorf("ReadFrom = %d, %v", n, err)
		}
		if _, err := f.Seek(100, io.SeekStart); err != nil {
			t.Error(err)
		}
		var out bytes.Buffer
		if n, err := f.WriteTo(&out); n != int64(len(data)) || err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("WriteTo = %d, %v", n, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A File behaves like a slice for any calls in any order.
func TestFileAtRandom(t *testing.T) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6, 7, 8} {
		config := Config{NoReadAhead: seed%3 == 1, NoWriteBehind: seed%5 == 1, Memory: 1 << 20}
		withFakeServer(t, config, func(p *fakeServer) {
			p.link.latency = time.Duration(seed%4) * time.Millisecond
			p.sessions = int(seed % 3)
			if seed%2 == 0 {
				p.ext = p.ext.Without(wire.ExtLimits)
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			if fileAtRandom(t, p, c, seed); t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

func fileAtRandom(t *testing.T, p *fakeServer, c *Client, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	var model []byte
	pos := 0
	f, err := c.Create(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte, off int) {
		if n := off + len(b); n > len(model) {
			model = append(model, make([]byte, n-len(model))...)
		}
		copy(model[off:], b)
	}
	size := func() int { return rnd.IntN([]int{10, 5000, 100_000, 700_000}[rnd.IntN(4)]) }
	for op := range 150 {
		switch k := rnd.IntN(10); k {
		case 0, 1, 2:
			b := pattern(size(), byte(op))
			if n, err := f.Write(b); n != len(b) || err != nil {
				t.Fatalf("op %d: Write = %d, %v", op, n, err)
			}
			put(b, pos)
			pos += len(b)
		case 3:
			b, off := pattern(size(), byte(op)), rnd.IntN(1<<20)
			if n, err := f.WriteAt(b, int64(off)); n != len(b) || err != nil {
				t.Fatalf("op %d: WriteAt = %d, %v", op, n, err)
			}
			if len(b) > 0 {
				put(b, off)
			}
		case 4:
			b := pattern(size(), byte(op))
			if n, err := f.ReadFrom(iotest.HalfReader(bytes.NewReader(b))); int(n) != len(b) || err != nil {
				t.Fatalf("op %d: ReadFrom = %d, %v", op, n, err)
			}
			if len(b) > 0 {
				put(b, pos)
			}
			pos += len(b)
		case 5, 6:
			b := make([]byte, size())
			n, err := io.ReadFull(f, b)
			want := model[min(pos, len(model)):min(pos+len(b), len(model))]
			if n != len(want) || !bytes.Equal(b[:n], want) || n == len(b) != (err == nil) {
				t.Fatalf("op %d: reading %d at %d of %d = %d, %v", op, len(b), pos, len(model), n, err)
			}
			pos += n
		case 7:
			b, off := make([]byte, size()), rnd.IntN(1<<20)
			n, err := f.ReadAt(b, int64(off))
			want := model[min(off, len(model)):min(off+len(b), len(model))]
			if n != len(want) || !bytes.Equal(b[:n], want) || n < len(b) && err != io.EOF || n == len(b) && err != nil && err != io.EOF {
				t.Fatalf("op %d: ReadAt(%d, %d) of %d = %d, %v", op, len(b), off, len(model), n, err)
			}
		case 8:
			pos = rnd.IntN(len(model) + 1)
			if at, err := f.Seek(int64(pos-len(model)), io.SeekEnd); at != int64(pos) || err != nil {
				t.Fatalf("op %d: Seek = %d, %v, want %d", op, at, err, pos)
			}
		case 9:
			n := rnd.IntN(len(model) + 1000)
			if err := f.Truncate(int64(n)); err != nil {
				t.Fatalf("op %d: Truncate: %v", op, err)
			}
			if n < len(model) {
				model = model[:n:n]
			} else {
				model = append(model, make([]byte, n-len(model))...)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if !bytes.Equal(p.get(t, "f"), model) {
		t.Errorf("the server is left with other bytes than the %d expected", len(model))
	}
}

// Appends through several open files of one name do not overlap, and each keeps its order.
func TestAppend(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) { p.link.latency = 5 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		p.put(t, "log", []byte("begin\n"))
		var wg sync.WaitGroup
		for who := range 3 {
			f, err := c.OpenFile(t.Context(), "log", os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for i := range 300 {
					if _, err := fmt.Fprintf(f, "%d %d\n", who, i); err != nil {
						t.Error(err)
					}
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		lines := bytes.Split(bytes.TrimSpace(p.get(t, "log")), []byte("\n"))
		if len(lines) != 901 || string(lines[0]) != "begin" {
			t.Fatalf("%d lines, want 901", len(lines))
		}
		next := [3]int{}
		for _, l := range lines[1:] {
			var who, i int
			if _, err := fmt.Sscanf(string(l), "%d %d", &who, &i); err != nil || i != next[who] {
				t.Fatalf("line %q, want number %d", l, next[who])
			}
			next[who]++
		}
	})
}

// The client uses no more memory than configured, no matter which side is slow.
func TestMemory(t *testing.T) {
	const memory = 4 << 20
	withFakeServer(t, Config{Memory: memory}, func(p *fakeServer) { p.link.latency = 100 * time.Millisecond }, func(t *testing.T, p *fakeServer, c *Client) {
		data := pattern(30<<20, 1)
		p.put(t, "f", data)
		check := func(what string) {
			if n := c.mux.State().InFlight; n > memory {
				t.Errorf("%s: %d bytes in flight", what, n)
			}
			if held := c.mux.State().Held; held > memory+5*(264<<10) { // each file may hold a little more
				t.Errorf("%s: %d bytes held", what, held)
			}
		}
		var wg sync.WaitGroup
		for range 3 {
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				defer f.Close()
				b := make([]byte, 1<<20)
				for range 20 {
					if _, err := io.ReadFull(f, b); err != nil {
						t.Error(err)
					}
					check("reading")
					time.Sleep(time.Second)
				}
			})
		}
		wg.Go(func() {
			f, err := c.Create(t.Context(), "g")
			if err != nil {
				t.Error(err)
				return
			}
			for range 20 {
				if _, err := f.Write(data[:1<<20]); err != nil {
					t.Error(err)
				}
				check("writing")
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
	})
}

// Mode and times of a file can be set without access to its content; the size needs write access:
// see store.Handle.
func TestSetAttrOfFileOpenForReading(t *testing.T) {
	for _, first := range []string{"", "f"} { // with "f", the whole file arrives with the handshake
		withFakeServer(t, Config{First: first}, func(p *fakeServer) { p.put(t, "f", []byte("text")) }, func(t *testing.T, p *fakeServer, c *Client) {
			f, err := c.Open(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			mode, when := fs.FileMode(0o600), time.Unix(1e9, 0)
			if err := f.SetAttr(store.Attr{Mode: &mode, AccessTime: when, ModTime: when}); err != nil {
				t.Errorf("mode and times: %v", err)
			}
			if fi, err := f.Stat(); err != nil || fi.Mode() != mode || !fi.ModTime().Equal(when) {
				t.Errorf("Stat = %v, %v", fi, err)
			}
			size := int64(1)
			if err := f.SetAttr(store.Attr{Size: &size}); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("size: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := f.SetAttr(store.Attr{Mode: &mode}); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("mode of a closed file: %v", err)
			}
			if got := p.get(t, "f"); string(got) != "text" {
				t.Errorf("there is %q", got)
			}
		})
	}
}
