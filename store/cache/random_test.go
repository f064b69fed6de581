package cache

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
)

var randomSeed = flag.Uint64("seed", 0, "seed of TestRandom; 0 draws one")

// A world is a cache with its source and its readers. Each step changes some part of it.
type world struct {
	t       *testing.T
	r       *rand.Rand
	dir     string
	l       *lab
	c       *Cache
	s       store.Store
	disk    *faulty
	clock   *clock
	history map[string][]version // the versions of each name
	open    []reader
	faults  bool // whether the source or the disk fails sometimes
}

type reader struct {
	store.File
	v version
}

const (
	worldSize  = 6 << 20 // the size of the cache; the files are larger
	worldSteps = 300
)

// Whatever readers do, and whatever changes and faults of the source and of the disk occur, no
// wrong byte is read, the directory and the memory stay within their bounds at every moment, and
// there is no error without a fault or a change.
func TestRandom(t *testing.T) {
	t.Parallel()
	seed, rounds := *randomSeed, 8
	if race.Enabled {
		rounds = 2
	}
	if seed != 0 {
		rounds = 1
	}
	for range rounds {
		if *randomSeed == 0 {
			seed = rand.Uint64()
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			repeat.OnFailure(t, fmt.Sprintf("-seed=%d", seed))
			runWorld(t, seed)
		})
	}
}

func runWorld(t *testing.T, seed uint64) {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), l: newLab(), history: map[string][]version{}}
	for i := range 8 {
		w.put(fmt.Sprintf("f%d", i))
	}
	w.start()
	for range worldSteps {
		w.step()
		w.checkBounds()
	}
	w.calm()
	w.restart()
	for name, all := range w.history {
		wantFile(t, w.s, name, all[len(all)-1])
	}
	if st := w.c.Stats(); st.Corrupt > 0 || st.FetchErrors > 0 || st.DiskErrors > 0 {
		t.Errorf("without a fault: %+v", st)
	}
	w.checkBounds()
}

// start starts a process.
func (w *world) start() {
	c, err := Open(Config{Dir: w.dir, Size: MinSize, Memory: minMemory, Fresh: time.Second, Stale: 3 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	c.cfg.Size = worldSize
	w.c, w.clock, w.disk = c, setClock(c), makeFaulty(c)
	w.disk.rand = rand.New(rand.NewPCG(w.r.Uint64(), 2))
	w.s = c.Store("lab", w.l)
}

func (w *world) restart() {
	for len(w.open) > 0 {
		w.close(0)
	}
	if err := w.c.Close(); err != nil {
		w.t.Error(err)
	}
	w.start()
}

func (w *world) put(name string) {
	sizes := []int64{0, 1, 1000, blockSize - 1, blockSize, 2*blockSize + 5, 3 * blockSize}
	w.history[name] = append(w.history[name], w.l.put(name, sizes[w.r.IntN(len(sizes))]))
}

// calm ends all faults.
func (w *world) calm() {
	w.l.set(func(l *lab) { l.away, l.before = nil, nil })
	w.disk.set(nil, nil)
	eventually(w.t, "fetches have ended that met a fault", func() bool { return w.c.Stats().Fetching == 0 })
	w.faults = false
}

func (w *world) step() {
	name := fmt.Sprintf("f%d", w.r.IntN(8))
	switch k := w.r.IntN(100); {
	case k < 20:
		w.openFile(name)
	case k < 80 && len(w.open) > 0:
		w.read(w.open[w.r.IntN(len(w.open))])
	case k < 85 && len(w.open) > 0:
		w.close(w.r.IntN(len(w.open)))
	case k < 88:
		w.put(name)
	case k < 90:
		w.faults = true
		w.l.set(func(l *lab) { l.away = errAway })
	case k < 92:
		w.faults = true
		r := rand.New(rand.NewPCG(w.r.Uint64(), 3))
		w.l.set(func(l *lab) { l.before = func(int64) error { return l.sometimes(r) } })
	case k < 94:
		w.faults = true
		w.disk.set([]error{nil, syscall.ENOSPC, syscall.EIO}[w.r.IntN(3)], []error{nil, syscall.EIO}[w.r.IntN(2)])
	case k < 98:
		w.calm()
	case k < 99:
		w.calm()
		w.restart()
	default:
		w.clock.add(time.Duration(w.r.IntN(1500)) * time.Millisecond)
	}
}

// sometimes returns an error for one in eight reads.
func (l *lab) sometimes(r *rand.Rand) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.IntN(8) == 0 {
		return errAway
	}
	return nil
}

func (w *world) openFile(name string) {
	if len(w.open) > 20 {
		w.close(0)
	}
	f, err := w.s.Open(w.t.Context(), name)
	if err != nil {
		if !w.faults {
			w.t.Errorf("Open(%s): %v", name, err)
		}
		return
	}
	number := 0
	if _, err := fmt.Sscanf(f.(store.Versioned).Version(), "v %d", &number); err != nil {
		w.t.Fatal(err)
	}
	v := w.history[name][number-1]
	if fi, err := f.Stat(); err != nil || fi.Size() != v.size {
		w.t.Errorf("Stat of %s = %v, %v, want version %+v", name, fi, err, v)
	}
	w.open = append(w.open, reader{f, v})
}

func (w *world) close(i int) {
	if err := w.open[i].Close(); err != nil {
		w.t.Error(err)
	}
	w.open = append(w.open[:i], w.open[i+1:]...)
}

// read reads some of a file in one of three ways.
func (w *world) read(f reader) {
	off := w.r.Int64N(f.v.size + 10)
	p := make([]byte, 1+w.r.IntN([]int{10, 2000, 200_000}[w.r.IntN(3)]))
	var n int
	var err error
	switch w.r.IntN(3) {
	case 0:
		n, err = f.ReadAt(p, off)
		if n < len(p) && err == nil {
			w.t.Errorf("ReadAt returned %d of %d bytes, and no error", n, len(p))
		}
	case 1:
		n, err = readPart(f, p, off)
	default:
		cut := w.r.IntN(len(p))
		n, err = f.File.(store.TryReader).TryReadAt([][]byte{p[:cut], p[cut:]}, off)
	}
	if n > 0 && !bytes.Equal(p[:n], f.v.bytes(off, n)) {
		w.t.Errorf("%d bytes at %d are not those of version %d", n, off, f.v.number)
	}
	replaced := w.l.isReplaced(f.v)
	switch {
	case err == nil, errors.Is(err, store.ErrWouldBlock), w.faults, replaced && errors.Is(err, store.ErrChanged):
	case err == io.EOF && off+int64(n) >= f.v.size:
	default:
		w.t.Errorf("reading %d bytes at %d of %+v: %d, %v", len(p), off, f.v, n, err)
	}
}

// readPart reads the part of a file at off.
func readPart(f reader, p []byte, off int64) (int, error) {
	part, length, end, ok := f.File.(store.PartOpener).OpenPart(off, int64(len(p)))
	if !ok {
		return 0, store.ErrWouldBlock
	}
	defer end()
	return io.ReadFull(part, p[:length])
}

// isReplaced reports whether v is no longer the version of any file.
func (l *lab) isReplaced(v version) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, now := range l.files {
		if now == v {
			return false
		}
	}
	return true
}

func (w *world) checkBounds() {
	st := w.c.Stats()
	if st.Held > worldSize || st.Memory > minMemory || st.Held < 0 || st.Memory < 0 {
		w.t.Errorf("out of bounds: %+v", st)
	}
	if n := used(w.t, w.dir); n > worldSize {
		w.t.Errorf("%d bytes are on the disk, %d are the most", n, worldSize)
	}
}

// Files on the disk are counted, and space that was reserved but not needed is released.
func TestCounts(t *testing.T) {
	dir := t.TempDir()
	l, c := newLab(), openCache(t, Config{Dir: dir})
	c.cfg.Size = worldSize
	s := c.Store("lab", l)
	for i := range 20 {
		name := fmt.Sprint(i)
		wantFile(t, s, name, l.put(name, int64(i)*100_000))
	}
	eventually(t, "all is stored", func() bool { return c.Stats().Memory == 0 })
	want := int64(baseCost)
	if err := List(t.Context(), dir, func(o Object) error {
		want += objectCost
		return nil
	}, func(name string, _ bool) { t.Error(name) }); err != nil {
		t.Error(err)
	}
	for _, file := range blockFiles(t, dir) {
		fi, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		want += blockCost(int(fi.Size()))
	}
	if st := c.Stats(); st.Held != want || st.Evictions == 0 || st.Blocks != len(blockFiles(t, dir)) {
		t.Errorf("%+v, want %d bytes", st, want)
	}
	if _, err := s.Open(t.Context(), "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
