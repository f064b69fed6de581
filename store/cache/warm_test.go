package cache

import (
	"context"
	"errors"
	"testing"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

const warmSize = 64 << 20

// warm returns a file of a directory, and the same file from a cache that has all of it.
func warm(t testing.TB, size int) (direct, cached store.File) {
	t.Helper()
	d := newDir(t)
	p := make([]byte, size)
	version{}.fill(p, 0)
	storetest.Put(t, d, "f", p)
	c := openCache(t, Config{Size: 4 * warmSize})
	s := c.Store("dir", d)
	open := func(s store.Store) store.File {
		f, err := s.Open(context.Background(), "f")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	direct, cached = open(d), open(s)
	for off := int64(0); off < int64(size); off += blockSize {
		wantBytes(t, cached, version{}, off, min(size-int(off), blockSize))
	}
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == int(blocksOf(int64(size))) })
	return direct, cached
}

// Reading cached data does not allocate within a block. At the start of another block it allocates
// once, to ask the system whether the block has changed.
func TestReadsDoNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	_, f := warm(t, 3*blockSize)
	p := make([]byte, 100_000)
	bufs := [][]byte{p[:50_000], p[50_000:]}
	reads := map[string]func([][]byte, int64) (int, error){
		"ReadAt": func(_ [][]byte, off int64) (int, error) { return f.ReadAt(p, off) },
	}
	try := f.(store.TryReader)
	if _, err := try.TryReadAt(bufs, 0); !errors.Is(err, errors.ErrUnsupported) {
		reads["TryReadAt"] = try.TryReadAt
	}
	for name, read := range reads {
		for _, tt := range []struct {
			step, span int64
			most       float64
		}{{int64(len(p)), blockSize, 0}, {blockSize, 3 * blockSize, 1}} {
			off := int64(0)
			if n := testing.AllocsPerRun(100, func() {
				if off += tt.step; off+int64(len(p)) > tt.span {
					off = 0
				}
				if n, err := read(bufs, off); n == 0 || err != nil {
					t.Error(n, err)
				}
			}); n > tt.most {
				t.Errorf("%s in steps of %d bytes allocates %v times", name, tt.step, n)
			}
		}
	}
}

// BenchmarkRead reads a file in order, in reads of 64 KiB, from a directory and from a cache that
// has all of it. The goal for a warm cache is 0.95 of the directory's throughput.
func BenchmarkRead(b *testing.B) {
	direct, cached := warm(b, warmSize)
	p := make([]byte, 64<<10)
	bufs := make([][]byte, 45) // blocks of the usual size of TFTP, as a window of it has
	for i := range bufs {
		bufs[i] = make([]byte, 1428)
	}
	for _, from := range []struct {
		name string
		f    store.File
	}{{"directory", direct}, {"cache", cached}} {
		b.Run(from.name+"/ReadAt", func(b *testing.B) {
			b.SetBytes(warmSize)
			for b.Loop() {
				for off := int64(0); off < warmSize; off += int64(len(p)) {
					if _, err := from.f.ReadAt(p, off); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(from.name+"/TryReadAt", func(b *testing.B) {
			b.SetBytes(warmSize)
			waits := 0
			for b.Loop() {
				for off := int64(0); off < warmSize; {
					n, err := from.f.(store.TryReader).TryReadAt(bufs, off)
					if err == store.ErrWouldBlock {
						waits++
						n, err = from.f.ReadAt(p, off)
					}
					if err != nil {
						b.Fatal(err)
					}
					off += int64(n)
				}
			}
			b.ReportMetric(float64(waits)/float64(b.N), "waits/op")
		})
	}
}
