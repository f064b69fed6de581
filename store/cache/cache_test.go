package cache

import (
	"os"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
)

// openCache opens a cache that is closed when the test ends. It assumes that no file changes twice
// within one tick of the clock, because tests write files and read them at once.
func openCache(t testing.TB, cfg Config) *Cache {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.Size == 0 {
		cfg.Size = MinSize
	}
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.racy = true
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newDir returns the store of a new directory.
func newDir(t testing.TB) *localdir.Dir {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	d := localdir.New(root)
	d.NoSync = true
	return d
}

// A cache in front of a store obeys the contract of stores.
func TestStore(t *testing.T) {
	t.Parallel()
	t.Run("Mem", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return openCache(t, Config{}).Store("mem", store.Mem(0)) })
	})
	t.Run("Dir", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) store.Store { return openCache(t, Config{}).Store("dir", newDir(t)) })
	})
}

// A cache in front of a tree obeys the contract of trees if it asks the source each time. Then a
// change through another name of a file is visible.
func TestTree(t *testing.T) {
	t.Parallel()
	storetest.RunTree(t, func(t *testing.T) store.Tree {
		return openCache(t, Config{Fresh: -1, Absent: -1}).Store("dir", newDir(t)).(store.Tree)
	})
}
