package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/cache"
	"github.com/haul-project/haul/store/storetest"
)

// The commands list, verify and clear a cache, and refuse other directories.
func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	c, err := cache.Open(cache.Config{Dir: dir, Size: cache.MinSize})
	if err != nil {
		t.Fatal(err)
	}
	m := store.Mem(0)
	if err := m.Mkdir(t.Context(), "boot", 0); err != nil {
		t.Fatal(err)
	}
	storetest.Put(t, m, "boot/kernel", strings.Repeat("kernel", 1000))
	// A file that has just changed would not be cached.
	if err := m.SetAttr(t.Context(), "boot/kernel", store.Attr{ModTime: time.Unix(1_000_000_000, 0)}, true); err != nil {
		t.Fatal(err)
	}
	f, err := c.Store("https://mirror.example/", m).Open(t.Context(), "boot/kernel")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(make([]byte, 6000), 0); n != 6000 {
		t.Fatal(n, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	want := func(code int, out, errs string, args ...string) {
		t.Helper()
		gotCode, gotOut, gotErrs := haul(t, append([]string{"cache"}, args...)...)
		if gotCode != code || gotOut != out || !strings.Contains(gotErrs, errs) {
			t.Errorf("haul cache %q = %d\n%s%s, want %d\n%s%s", args, gotCode, gotOut, gotErrs, code, out, errs)
		}
	}
	want(0, "    5.9K of     5.9K  https://mirror.example/  boot/kernel\n", "", "ls", dir)
	want(0, "1 file, 1 block, 6.0 kB\n", "", "verify", dir)
	blocks, err := filepath.Glob(filepath.Join(dir, "objects", "*", "0-*"))
	if err != nil || len(blocks) != 1 {
		t.Fatal(blocks, err)
	}
	if err := os.WriteFile(blocks[0], []byte(strings.Repeat("colonel", 1000)[:6000]), 0o600); err != nil {
		t.Fatal(err)
	}
	want(exitFailed, "https://mirror.example/  boot/kernel, block 0: its content is not what was stored\n1 file, 1 block, 6.0 kB\n", "1 block", "verify", dir)
	// Files that the cache did not create are reported, and stay.
	for _, name := range []string{"README", "objects/core"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	named := "README: the cache has not made this\n%sobjects/core: the cache has not made this; a server removes it when it starts\n"
	want(0, "and 2 files that the cache has not made; haul cache verify names them\n", "", "ls", dir)
	want(0, fmt.Sprintf(named, "")+"0 files, 0 blocks, 0 B\n", "", "verify", dir)
	want(0, "kept "+fmt.Sprintf(named, "kept ")+"removed 0 files, 0 blocks, 0 B\n", "", "clear", dir)
	want(0, "and 2 files that the cache has not made; haul cache verify names them\n", "", "ls", dir)
	want(exitLocal, "", "is no cache", "ls", t.TempDir())
	want(exitUsage, "", "DIR", "clear")
}
