package cache

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/store"
)

// If a thousand readers open a file that was never read, the source is opened once, and each block
// is fetched once. A thousand more readers cause no calls to the source.
func TestOneFetch(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	v := l.put("f", 3*blockSize+100_000)
	s := c.Store("lab", l)
	for range 2 {
		var readers sync.WaitGroup
		var wrong atomic.Int64
		for range 1000 {
			readers.Go(func() {
				f, err := s.Open(t.Context(), "f")
				if err != nil {
					wrong.Add(1)
					return
				}
				defer f.Close()
				var p [512]byte
				for off := int64(0); off < v.size; off += 100_000 {
					n := min(len(p), int(v.size-off))
					if _, err := f.ReadAt(p[:n], off); err != nil || string(p[:n]) != string(v.bytes(off, n)) {
						wrong.Add(1)
					}
				}
			})
		}
		readers.Wait()
		if n := wrong.Load(); n > 0 {
			t.Errorf("%d reads failed, or had wrong bytes", n)
		}
		eventually(t, "all is stored", func() bool { return c.Stats().Blocks == 4 })
	}
	for b, n := range l.reads {
		if n != 1 {
			t.Errorf("block %d was read %d times", b, n)
		}
	}
	if st := c.Stats(); l.opens != 1 || st.Fetches != 4 || st.BytesFetched != uint64(v.size) || st.Hits < 4000 {
		t.Errorf("%d openings, %+v, want one, and 4 fetches", l.opens, st)
	}
}

// A reader gets the first bytes before the rest of the block has arrived.
func TestStreamThrough(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	v := l.put("f", 2*blockSize)
	rest := make(chan struct{})
	l.before = func(off int64) error {
		if off > 0 {
			<-rest
		}
		return nil
	}
	f := openFile(t, c.Store("lab", l), "f")
	wantBytes(t, f, v, 0, 1000)
	if n, err := f.(store.TryReader).TryReadAt([][]byte{make([]byte, 10)}, 0); n != 10 || err != nil {
		t.Errorf("TryReadAt of what has come = %d, %v", n, err)
	}
	if n, err := f.(store.TryReader).TryReadAt([][]byte{make([]byte, 10)}, blockSize-10); n != 0 || err != store.ErrWouldBlock {
		t.Errorf("TryReadAt of what has not come = %d, %v", n, err)
	}
	close(rest)
	wantBytes(t, f, v, 0, 2*blockSize)
}

// For a reader that reads in order, blocks are fetched ahead, more and more, up to a bound. For
// other readers, no blocks are fetched ahead.
func TestReadAhead(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	v := l.put("f", 40*blockSize)
	s := c.Store("lab", l)
	f := openFile(t, s, "f")
	fetched := 0
	for i, want := range []int{2, 4, 7, 12, 21, 22} {
		wantBytes(t, f, v, int64(i)*blockSize, 100)
		eventually(t, "blocks are fetched ahead", func() bool { return c.Stats().Blocks >= want && c.Stats().Memory == 0 })
		fetched = c.Stats().Blocks
		if fetched != want {
			t.Errorf("at block %d, %d blocks have been fetched, want %d", i, fetched, want)
		}
	}
	for _, at := range []int64{39, 30, 35} {
		wantBytes(t, f, v, at*blockSize, 100)
		fetched++
	}
	eventually(t, "all is stored", func() bool { return c.Stats().Blocks == fetched && c.Stats().Memory == 0 })
}

// Blocks that are fetched ahead of a reader arrive in order, from one open file of the source, even
// though the reader does not wait for them: the blocks that it reads are on the disk.
func TestAheadInOrder(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	v := l.put("f", 7*blockSize)
	s := c.Store("lab", l)
	wantBytes(t, openFile(t, s, "f"), v, 0, 100)
	eventually(t, "two blocks are stored", func() bool { return c.Stats().Blocks == 2 && c.Stats().Memory == 0 })
	var order []int64 // guarded by l.mu
	l.set(func(l *lab) {
		l.before = func(off int64) error {
			if off%blockSize == 0 {
				l.set(func(*lab) { order = append(order, off/blockSize) })
			}
			return nil
		}
	})
	f := openFile(t, s, "f")
	wantBytes(t, f, v, 0, 100)
	wantBytes(t, f, v, blockSize, 100)
	eventually(t, "two more are stored", func() bool { return c.Stats().Blocks == 4 && c.Stats().Memory == 0 })
	wantBytes(t, f, v, 2*blockSize, 100)
	eventually(t, "all are stored", func() bool { return c.Stats().Blocks == 7 && c.Stats().Memory == 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(order, []int64{2, 3, 4, 5, 6}) || l.opens != 1 {
		t.Errorf("blocks were fetched in the order %v, over %d openings; want 2 to 6, over one", order, l.opens)
	}
}

// When the last reader leaves, the fetch is canceled, and the file of the source is closed.
func TestCancel(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	l.put("f", 8*blockSize)
	blocked := make(chan struct{})
	l.before = func(off int64) error {
		if off >= blockSize {
			<-blocked
		}
		return nil
	}
	s := c.Store("lab", l)
	ctx, cancel := context.WithCancel(t.Context())
	f, err := s.Open(ctx, "f")
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := f.ReadAt(make([]byte, 10), 3*blockSize)
			read <- err
		}()
	}
	cancel()
	for range 2 {
		if err := <-read; !errors.Is(err, context.Canceled) {
			t.Errorf("a read whose context ended: %v", err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the source is closed", func() bool { return count(l, func(l *lab) int { return l.opens - l.closed }) == 0 })
	close(blocked)
	eventually(t, "memory is given back", func() bool { return c.Stats().Memory == 0 && c.Stats().Fetching == 0 })
	if n := c.Stats().FetchErrors; n != 0 {
		t.Errorf("%d fetch errors", n)
	}
}

// If a file is replaced while it is read, its reader gets an error, and the next reader gets the
// new file.
func TestReplacedMeanwhile(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	v := l.put("f", 30*blockSize)
	s := c.Store("lab", l)
	f := openFile(t, s, "f")
	wantBytes(t, f, v, 0, 1000)
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 2 })
	v2 := l.put("f", 30*blockSize)
	if _, err := f.ReadAt(make([]byte, 1000), 20*blockSize); !errors.Is(err, store.ErrChanged) {
		t.Errorf("a read of what was replaced: %v", err)
	}
	wantBytes(t, f, v, 0, 1000) // still there
	wantFile(t, s, "f", v2)
}

// If the source fails once, the fetch continues where it stopped. If the source ends early or fails
// again, the read fails, and the next reader asks the source again.
func TestSourceFails(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	v := l.put("f", blockSize)
	failures := 1
	l.before = func(off int64) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if off > 0 && failures > 0 {
			failures--
			return errAway
		}
		return nil
	}
	s := c.Store("lab", l)
	wantFile(t, s, "f", v)
	if n := l.reads[0]; n != 1 {
		t.Errorf("the beginning was read %d times", n)
	}
	v = l.put("g", blockSize)
	l.set(func(*lab) { failures = 1000 })
	f := openFile(t, s, "g")
	wantBytes(t, f, v, 0, 100)
	for range 2 {
		if _, err := f.ReadAt(make([]byte, 10), blockSize-10); !errors.Is(err, errAway) {
			t.Errorf("a source that fails: %v", err)
		}
	}
	l.set(func(*lab) { failures = 0 })
	wantBytes(t, f, v, 0, blockSize)
	if n := c.Stats().FetchErrors; n == 0 {
		t.Error("no fetch errors are counted")
	}
	l.set(func(l *lab) { l.before = func(off int64) error { return io.EOF } })
	l.put("h", 1000)
	if _, err := openFile(t, s, "h").ReadAt(make([]byte, 10), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a source that ends early: %v", err)
	}
}

// A source that fails only after a long time has already tried long enough, and is not asked again.
// Readers wait no longer than without a cache.
func TestSourceFailsLate(t *testing.T) {
	for took, tries := range map[time.Duration]int{time.Second: maxTries, 20 * time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			l, c := newLab(), openCache(t, Config{})
			l.put("f", blockSize)
			l.before = func(int64) error {
				time.Sleep(took)
				return errAway
			}
			f := openFile(t, c.Store("lab", l), "f")
			began := time.Now()
			if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, errAway) {
				t.Error(err)
			}
			if waited := time.Since(began); waited != time.Duration(tries)*took || l.reads[0] != tries {
				t.Errorf("a source that fails after %v is tried %d times, in %v; want %d", took, l.reads[0], waited, tries)
			}
			_ = f.Close()
			_ = c.Close()
		})
	}
}

// If many files of a source are read, and it does not answer, it holds only its share of the
// fetches. Another source gets the rest.
func TestSourceHangs(t *testing.T) {
	bad, good, c := newLab(), newLab(), openCache(t, Config{Memory: 16 * blockSize})
	b, g := c.Store("bad", bad), c.Store("good", good)
	end := make(chan struct{})
	bad.before = func(int64) error { <-end; return io.ErrUnexpectedEOF }
	v := good.put("f", 3*blockSize)
	var readers sync.WaitGroup
	for i := range 2 * maxFetches {
		name := strconv.Itoa(i)
		bad.put(name, blockSize)
		f := openFile(t, b, name)
		defer f.Close()
		readers.Go(func() {
			if n, err := f.ReadAt(make([]byte, 10), 0); n > 0 || err == nil {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		})
	}
	eventually(t, "the source has its share", func() bool { return c.Stats().Fetching == 8 })
	wantFile(t, g, "f", v)
	close(end)
	readers.Wait()
}

// Several places of a large file are fetched at once: no reader waits for another.
func TestStreams(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	v := l.put("f", 200*blockSize)
	held := make(chan struct{})
	l.before = func(off int64) error {
		if off < 20*blockSize {
			<-held
		}
		return nil
	}
	s := c.Store("lab", l)
	f := openFile(t, s, "f")
	done := make(chan struct{})
	go func() {
		defer close(done)
		wantBytes(t, f, v, 0, 1000)
	}()
	eventually(t, "a fetch is under way", func() bool { return c.Stats().Fetching > 0 })
	wantBytes(t, f, v, 100*blockSize, 1000)
	close(held)
	<-done
}

// A diskCounter counts the calls of a cache to its directory.
type diskCounter struct {
	store.Tree
	n atomic.Int32
}

func (d *diskCounter) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	d.n.Add(1)
	return d.Tree.Create(ctx, name, c)
}

func (d *diskCounter) Open(ctx context.Context, name string) (store.File, error) {
	d.n.Add(1)
	return d.Tree.Open(ctx, name)
}

func (d *diskCounter) Remove(ctx context.Context, name string) error {
	d.n.Add(1)
	return d.Tree.Remove(ctx, name)
}

func (d *diskCounter) RemoveDir(ctx context.Context, name string) error {
	d.n.Add(1)
	return d.Tree.RemoveDir(ctx, name)
}

// The first bytes of a file that is not cached need one request to the source, and no call to the
// disk, even if the cache is full and another block must be removed.
func TestFirstBytes(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	s := c.Store("lab", l)
	wantFile(t, s, "old", l.put("old", blockSize))
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 1 })
	c.mu.Lock()
	c.cfg.Size = c.held // there is no room for another block
	c.mu.Unlock()
	disk := &diskCounter{Tree: c.disk.files}
	c.disk.files = disk
	l.opens, l.stats = 0, 0
	rest := make(chan struct{})
	l.before = func(off int64) error {
		if off > 0 {
			<-rest
		}
		return nil
	}
	v := l.put("new", blockSize)
	f := openFile(t, s, "new")
	wantBytes(t, f, v, 0, minPiece)
	wantAsks(t, l, 1, 0)
	if n, st := disk.n.Load(), c.Stats(); n != 0 || st.Evictions != 0 {
		t.Errorf("before the first bytes there are %d calls to the disk, %+v", n, st)
	}
	close(rest)
	eventually(t, "it is stored", func() bool { st := c.Stats(); return st.Evictions == 1 && st.Blocks == 1 && st.Memory == 0 })
	wantBytes(t, f, v, 0, blockSize)
	if disk.n.Load() == 0 {
		t.Error("no call to the disk is counted")
	}
}

// A full or failing disk only disables the cache: the bytes that are read are right, each block is
// fetched once as long as memory is available, and the log has one line.
func TestDiskFull(t *testing.T) {
	for i, bad := range []error{syscall.ENOSPC, syscall.EIO, syscall.ENOSPC} {
		log, lines := newLog()
		l, c := newLab(), openCache(t, Config{Log: log})
		v := l.put("f", 5*blockSize+1)
		disk := makeFaulty(c)
		disk.set(bad, nil)
		if i == 2 {
			disk.least = 1000 // there is room for the info file
			v = l.put("f", 6*blockSize)
		}
		s := c.Store("lab", l)
		stays, err := s.Open(t.Context(), "f") // blocks that nobody reads any more are not kept in memory
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			wantFile(t, s, "f", v)
		}
		eventually(t, "all is given up", func() bool { return c.Stats().Unstored == 6 })
		_ = stays.Close()
		st := c.Stats()
		if st.Fetches != 6 || st.DiskErrors < 1 || st.Unstored != 6 || st.Blocks != 0 || st.Held != baseCost {
			t.Errorf("%v: %+v", bad, st)
		}
		if n := lines(); n != 1 {
			t.Errorf("%d lines in the log", n)
		}
		disk.set(nil, nil)
		v = l.put("g", blockSize)
		wantFile(t, s, "g", v)
		eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 1 })
	}
}

// A block that is unreadable, truncated or damaged is fetched again.
func TestDiskFails(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	v := l.put("f", 3*blockSize)
	disk := makeFaulty(c)
	s := c.Store("lab", l)
	wantFile(t, s, "f", v)
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 3 })
	disk.set(nil, syscall.EIO)
	wantFile(t, s, "f", v)
	if st := c.Stats(); st.DiskErrors == 0 || st.Fetches < 6 {
		t.Errorf("%+v", st)
	}
}

// Readers wait while no memory is free, and continue later.
func TestMemoryBound(t *testing.T) {
	l, c := newLab(), openCache(t, Config{Memory: minMemory})
	makeFaulty(c).set(syscall.ENOSPC, nil)
	s := c.Store("lab", l)
	var files sync.WaitGroup
	var most atomic.Int64
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
				most.Store(max(most.Load(), c.Stats().Memory))
			}
		}
	}()
	for _, name := range []string{"a", "b", "c", "d"} {
		v := l.put(name, 10*blockSize)
		files.Go(func() { wantFile(t, s, name, v) })
	}
	files.Wait()
	close(stop)
	if n := most.Load(); n > minMemory {
		t.Errorf("%d bytes of memory in use, %d are the most", n, minMemory)
	}
}

// Readers at 200 places of a file that is larger than the cache take no more memory than
// Config.Memory, plus a little for each.
func TestMemoryOfSlowReaders(t *testing.T) {
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the contents of a pool are freed, too
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const readers, spare = 200, 2 << 20
	l, c := newLab(), openCache(t, Config{Memory: minMemory})
	v := l.put("f", readers*blockSize)
	s := c.Store("lab", l)
	var open []store.File
	for range readers {
		open = append(open, openFile(t, s, "f"))
	}
	before := live()
	for i, f := range open {
		wantBytes(t, f, v, int64(i)*blockSize, 100)
		if i%20 == 0 {
			if got := live() - before; got > minMemory+spare {
				t.Fatalf("%d bytes are live, %d of blocks are the most", got, minMemory)
			}
		}
	}
	if n := c.Stats().Evictions; n == 0 {
		t.Error("nothing was removed to make room")
	}
}

// After Close, reading and opening files fail, and no work is in progress.
func TestClose(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	l.put("f", blockSize)
	l.before = func(int64) error { time.Sleep(time.Millisecond); return nil }
	s := c.Store("lab", l)
	f := openFile(t, s, "f")
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("ReadAt after Close: %v", err)
	}
	if _, err := s.Open(t.Context(), "f"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Open after Close: %v", err)
	}
}
