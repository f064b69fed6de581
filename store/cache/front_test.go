package cache

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
)

// A clock has a time that is set by tests.
type clock struct {
	mu  sync.Mutex
	now time.Time // guarded by mu
}

func setClock(c *Cache) *clock {
	k := &clock{now: time.Now()}
	c.now = func() time.Time {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.now
	}
	return k
}

func (k *clock) add(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = k.now.Add(d)
}

func wantAsks(t *testing.T, l *lab, opens, stats int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opens != opens || l.stats != stats {
		t.Errorf("%d openings and %d descriptions at the source, want %d and %d", l.opens, l.stats, opens, stats)
	}
	l.opens, l.stats = 0, 0
}

// After Fresh has passed, the source is asked again. If all blocks are cached, Stat of the file is
// enough.
func TestFresh(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	k, s := setClock(c), c.Store("lab", l)
	v := l.put("f", 2*blockSize)
	wantFile(t, s, "f", v)
	wantAsks(t, l, 1, 0)
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 2 })
	v2 := l.put("f", 2*blockSize)
	k.add(DefaultFresh - 1)
	wantFile(t, s, "f", v)
	if fi, err := s.Stat(t.Context(), "f"); err != nil || fi.Size() != v.size {
		t.Errorf("Stat = %v, %v", fi, err)
	}
	wantAsks(t, l, 0, 0)
	k.add(1)
	wantFile(t, s, "f", v2)
	wantAsks(t, l, 1, 1)
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 4 })
	k.add(DefaultFresh)
	wantFile(t, s, "f", v2)
	wantAsks(t, l, 0, 1)
	k.add(DefaultFresh)
	if _, err := s.Stat(t.Context(), "f"); err != nil {
		t.Error(err)
	}
	wantFile(t, s, "f", v2)
	wantAsks(t, l, 0, 1)
}

// The cache remembers for a while that a name does not exist.
func TestAbsent(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	k, s := setClock(c), c.Store("lab", l)
	for range 3 {
		if _, err := s.Open(t.Context(), "f"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := s.Stat(t.Context(), "f"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	wantAsks(t, l, 1, 0)
	v := l.put("f", 10)
	k.add(defaultAbsent)
	wantFile(t, s, "f", v)
	k.add(DefaultFresh)
	l.remove("f")
	if _, err := s.Open(t.Context(), "f"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for i := range maxNames + 100 {
		_, _ = s.Stat(t.Context(), "missing/"+time.Duration(i).String())
	}
	if n := len(s.(*front).names); n > maxNames {
		t.Errorf("%d names are remembered, %d are the most", n, maxNames)
	}
	long := strings.Repeat("x", 4000)
	for i := range maxNameBytes/len(long) + 1000 {
		_, _ = s.Stat(t.Context(), "missing/"+time.Duration(i).String()+long)
		if n := s.(*front).bytes; n > maxNameBytes { // the bound holds also while most names are short
			t.Fatalf("%d bytes of names are remembered, %d are the most", n, maxNameBytes)
		}
	}
	bytes := 0
	for name := range s.(*front).names {
		bytes += len(name)
	}
	if bytes > maxNameBytes || bytes < maxNameBytes/2 {
		t.Errorf("%d bytes of names are remembered, %d are the most", bytes, maxNameBytes)
	}
}

// While the source is unreachable, the cache serves its old content if Stale allows it, and logs
// that. Without Stale it does not.
func TestStale(t *testing.T) {
	for _, stale := range []time.Duration{0, time.Hour} {
		log, lines := newLog()
		l, c := newLab(), openCache(t, Config{Stale: stale, Log: log})
		k, s := setClock(c), c.Store("lab", l)
		v := l.put("f", 2*blockSize)
		wantFile(t, s, "f", v)
		eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 2 })
		l.set(func(l *lab) { l.away = errAway })
		wantFile(t, s, "f", v)
		k.add(DefaultFresh)
		if stale == 0 {
			if _, err := s.Open(t.Context(), "f"); !errors.Is(err, errAway) {
				t.Errorf("Open: %v", err)
			}
			continue
		}
		wantFile(t, s, "f", v)
		if fi, err := s.Stat(t.Context(), "f"); err != nil || fi.Size() != v.size {
			t.Errorf("Stat = %v, %v", fi, err)
		}
		if _, err := s.Open(t.Context(), "g"); !errors.Is(err, errAway) {
			t.Errorf("Open of what is not there: %v", err)
		}
		eventually(t, "it is in the log", func() bool { return lines() == 2 })
		if st := c.Stats(); st.Stale < 2 || st.SourceErrors < 2 {
			t.Errorf("%+v", st)
		}
		l.set(func(l *lab) { l.away = nil })
		v = l.put("f", 100)
		k.add(staleRetry)
		wantFile(t, s, "f", v)
		l.set(func(l *lab) { l.away = errAway })
		k.add(DefaultFresh + stale)
		if _, err := s.Open(t.Context(), "f"); !errors.Is(err, errAway) {
			t.Errorf("Open after all that time: %v", err)
		}
	}
}

// The error that a file has just changed is an answer: the source does not count as unreachable,
// nothing is logged, and the old state of the file is no longer served.
func TestUnsettled(t *testing.T) {
	log, lines := newLog()
	l, c := newLab(), openCache(t, Config{Stale: time.Hour, Log: log})
	k, s := setClock(c), c.Store("lab", l)
	wantFile(t, s, "f", l.put("f", 100))
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 1 })
	k.add(DefaultFresh)
	l.set(func(l *lab) { l.away = store.ErrUnsettled })
	for range 2 {
		if _, err := s.Open(t.Context(), "f"); !errors.Is(err, store.ErrUnsettled) {
			t.Errorf("Open: %v", err)
		}
	}
	if st := c.Stats(); st.SourceErrors+st.Stale > 0 || lines() > 0 {
		t.Errorf("%d lines in the log, %+v", lines(), st)
	}
	l.set(func(l *lab) { l.away = nil })
	wantFile(t, s, "f", l.put("f", 200))
}

// Changes through the cache are visible at once, even before Config.Fresh has passed. As soon as
// readers have closed the old content, none of it is left on the disk.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	c := openCache(t, Config{Dir: dir})
	s := c.Store("dir", newDir(t)).(store.Tree)
	if _, err := s.Stat(t.Context(), "d/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := s.Mkdir(t.Context(), "d", 0); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		f, err := s.Open(t.Context(), name)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		p := make([]byte, 100)
		n, _ := f.ReadAt(p, 0)
		return string(p[:n])
	}
	storetest.Put(t, s, "d/f", "one")
	if got := read("d/f"); got != "one" {
		t.Error(got)
	}
	f := openFile(t, s, "d/f")
	storetest.Put(t, s, "d/f", "two")
	if got := read("d/f"); got != "two" {
		t.Error(got)
	}
	p := make([]byte, 3)
	if _, err := f.ReadAt(p, 0); err != nil || string(p) != "one" {
		t.Errorf("a reader of before reads %q, %v", p, err)
	}
	_ = f.Close()
	if err := s.Rename(t.Context(), "d", "e", false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "d/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if got := read("e/f"); got != "two" {
		t.Error(got)
	}
	if err := s.Remove(t.Context(), "e/f"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), "e/f"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	eventually(t, "nothing is left", func() bool { return len(blockFiles(t, dir)) == 0 && c.Stats().Held == baseCost })
}

// A file that has just changed may change again without a trace, so it is not cached.
func TestJustChanged(t *testing.T) {
	c := openCache(t, Config{})
	c.racy = false
	m := store.Mem(0)
	storetest.Put(t, m, "f", "content")
	s := c.Store("mem", m)
	if got := openFile(t, s, "f"); got != nil {
		if _, ok := got.(*file); ok {
			t.Error("it is kept")
		}
	}
	if n, err := openFile(t, s, "f").ReadAt(make([]byte, 7), 0); n != 7 || err != nil {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
}
