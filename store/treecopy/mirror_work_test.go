package treecopy_test

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// A counted tree counts how many times files are opened and directories listed.
type counted struct {
	store.Tree
	opened, listed atomic.Int64
}

func (c *counted) Open(ctx context.Context, name string) (store.File, error) {
	c.opened.Add(1)
	return c.Tree.Open(ctx, name)
}

func (c *counted) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	c.listed.Add(1)
	return c.Tree.OpenDir(ctx, name)
}

// If the target changes the case of names, a directory is listed once for all of them.
func TestTwinsAreListedOnce(t *testing.T) {
	source, dest := store.Mem(0), &counted{Tree: &lowering{Tree: store.Mem(0)}}
	for i := range 50 {
		grow(t, source, fmt.Sprintf("NAME%d", i))
	}
	for again := range 2 {
		dest.listed.Store(0)
		if r, _, err := copyAll(t.Context(), source, dest, "./", mirroring(), "."); err != nil || r.Deleted > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if n := dest.listed.Load(); again > 0 && n > 2 {
			t.Errorf("the target was listed %d times", n)
		}
	}
}

// If many files have the same size and time, each file that may have moved is compared with a few
// of them, first with those of its own name.
func TestMovedAmongMany(t *testing.T) {
	const many = 60
	for _, renamed := range []bool{false, true} {
		source, dest := store.Mem(0), &counted{Tree: store.Mem(0)}
		for i := range many {
			data := pattern(130<<10, uint64(i))
			name := fmt.Sprintf("f%d", i)
			put(t, dest.Tree, "old/"+name, data)
			setTime(t, dest.Tree, "old/"+name, time.Unix(1_500_000_000, 0))
			if renamed {
				name = fmt.Sprintf("g%d", i)
			}
			put(t, source, "new/"+name, data)
			setTime(t, source, "new/"+name, time.Unix(1_500_000_000, 0))
		}
		r, _, err := copyAll(t.Context(), source, dest, "./", mirroring(), ".")
		if err != nil || !renamed && r.Moved != many || r.Moved+r.Copied != many {
			t.Errorf("renamed %v: %+v, %v", renamed, r, err)
		}
		if n := dest.opened.Load(); n > 5*many {
			t.Errorf("renamed %v: files of the target were opened %d times for %d that moved", renamed, n, many)
		}
		wantSame(t, contents(t, source, false), contents(t, dest.Tree, false))
	}
}

// A meeting tree makes two look-ups of directories that are to be deleted wait for each other.
type meeting struct {
	store.Tree
	mu      sync.Mutex
	waiting chan struct{} // guarded by mu: the channel of the look-up that waits; nil while no look-up waits
	alone   atomic.Int64
}

func (m *meeting) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if strings.HasPrefix(path.Base(name), "old") {
		m.meet()
	}
	return m.Tree.Lstat(ctx, name)
}

func (m *meeting) meet() {
	m.mu.Lock()
	if m.waiting != nil {
		close(m.waiting)
		m.waiting = nil
		m.mu.Unlock()
		return
	}
	met := make(chan struct{})
	m.waiting = met
	m.mu.Unlock()
	select {
	case <-met:
	case <-time.After(20 * time.Second):
		m.alone.Add(1)
		m.mu.Lock()
		m.waiting = nil
		m.mu.Unlock()
	}
}

// Before the deletions many directories are looked up at once: each takes a round trip.
func TestDirectoriesAreLookedAtTogether(t *testing.T) {
	source, dest := store.Mem(0), &meeting{Tree: store.Mem(0)}
	grow(t, source, "a")
	for i := range 2 {
		grow(t, dest.Tree, fmt.Sprintf("old%d/x", i))
	}
	if r, _, err := copyAll(t.Context(), source, dest, "./", mirroring(), "."); err != nil || r.Deleted != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	if n := dest.alone.Load(); n > 0 {
		t.Errorf("%d directories were looked at one after the other", n)
	}
}
