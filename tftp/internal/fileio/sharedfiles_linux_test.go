package fileio

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
)

// tempDir returns a new directory and the store in it.
func tempDir(t *testing.T) (string, *localdir.Dir) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	d := localdir.New(root)
	d.Path = dir
	return dir, d
}

// A closeCounter counts how many times the file in it is closed.
type closeCounter struct {
	store.File
	closes *atomic.Int32
}

func (c closeCounter) Close() error {
	c.closes.Add(1)
	return c.File.Close()
}

func (c closeCounter) Identity() (store.Identity, bool) {
	return c.File.(store.Identifier).Identity()
}

// share opens a file in st, and shares it.
func share(t *testing.T, s *SharedFiles, st store.Store, name string) store.File {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := s.Share(f)
	if err != nil {
		t.Fatal(err)
	}
	return shared
}

// openBelow returns how many descriptors of this process are regular files in dir, including files
// that no longer have a name.
func openBelow(t *testing.T, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			n++
		}
	}
	return n
}

func wantRead(t *testing.T, f store.File, want string) {
	t.Helper()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 100))
	if string(got) != want || err != nil {
		t.Errorf("read %q, %v; want %q", got, err, want)
	}
	p := make([]byte, 100)
	if try, ok := f.(store.TryReader); ok {
		if n, err := try.TryReadAt([][]byte{p}, 0); err == nil && string(p[:n]) != want {
			t.Errorf("TryReadAt gives %q, want %q", p[:n], want)
		}
	}
}

// All readers of the same content share one open file. A file that was replaced, or changed in
// place, counts as a different file.
func TestSharedFiles(t *testing.T) {
	dir, d := tempDir(t)
	storetest.Put(t, d, "f", "old")
	storetest.Put(t, d, "g", "old")
	if err := os.Link(filepath.Join(dir, "f"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	var s SharedFiles
	var readers []store.File
	for range 100 {
		readers = append(readers, share(t, &s, d, "f"), share(t, &s, d, "link"))
	}
	if n, open := openBelow(t, dir), s.Open(); n != 1 || open != 1 {
		t.Errorf("%d descriptors and %d files for one file", n, open)
	}
	other := share(t, &s, d, "g")
	storetest.Put(t, d, "f", "new")
	replaced := share(t, &s, d, "f")
	wantRead(t, replaced, "new")
	wantRead(t, readers[0], "old")
	if err := os.WriteFile(filepath.Join(dir, "g"), []byte("longer"), 0o644); err != nil {
		t.Fatal(err)
	}
	changed := share(t, &s, d, "g")
	wantRead(t, changed, "longer")
	if n, open := openBelow(t, dir), s.Open(); n != 4 || open != 4 {
		t.Errorf("%d descriptors and %d files, want 4", n, open)
	}
	if got := store.LocationOf(readers[1]).Path; got != filepath.Join(dir, "link") {
		t.Errorf("the reader of the link is at %q", got)
	}
	for i, f := range append(readers, other, replaced, changed) {
		if i == 1 {
			wantRead(t, f, "old") // the first reader has been closed
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Close again: %v", err)
		}
		if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
	}
	if n, open := openBelow(t, dir), s.Open(); n != 0 || open != 0 {
		t.Errorf("%d descriptors and %d files are left", n, open)
	}
}

// Readers that open and close files at the same time close each file exactly once.
func TestSharedFilesAtOnce(t *testing.T) {
	_, d := tempDir(t)
	storetest.Put(t, d, "f", "content")
	var s SharedFiles
	var closes atomic.Int32
	const readers, each = 8, 50
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for range each {
				f, err := d.Open(t.Context(), "f")
				if err != nil {
					t.Error(err)
					return
				}
				shared, err := s.Share(closeCounter{f, &closes})
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := io.ReadAll(io.NewSectionReader(shared, 0, 100)); string(got) != "content" || err != nil {
					t.Errorf("read %q, %v", got, err)
				}
				if err := shared.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := closes.Load(); n != readers*each || s.Open() != 0 {
		t.Errorf("%d files were closed of %d, %d are open", n, readers*each, s.Open())
	}
}

// A file beyond the limit is closed. A file that is already open does not count a second time.
func TestSharedFilesBound(t *testing.T) {
	dir, d := tempDir(t)
	storetest.Put(t, d, "f", "content")
	storetest.Put(t, d, "g", "content")
	s := SharedFiles{Max: 2}
	first := share(t, &s, d, "f")
	if err := s.Acquire(); err != nil || !s.Full() {
		t.Errorf("the second: %v, full %t", err, s.Full())
	}
	if err := s.Acquire(); !errors.Is(err, ErrManyFiles) {
		t.Errorf("the third: %v", err)
	}
	again := share(t, &s, d, "f")
	var closes atomic.Int32
	for _, f := range []store.File{closeCounter{mustOpen(t, d, "g"), &closes}, store.FromBytes("x", nil)} {
		if _, err := s.Share(f); !errors.Is(err, ErrManyFiles) {
			t.Errorf("another file: %v", err)
		}
	}
	if closes.Load() != 1 {
		t.Errorf("a file that was refused was closed %d times", closes.Load())
	}
	s.Release()
	unknown, err := s.Share(store.FromBytes("x", []byte("generated")))
	if err != nil {
		t.Fatal(err)
	}
	wantRead(t, unknown, "generated")
	if !s.Full() {
		t.Error("a file that cannot be shared does not count")
	}
	for _, f := range []store.File{first, again, unknown} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := openBelow(t, dir); n != 0 || s.Open() != 0 {
		t.Errorf("%d descriptors are left, %d files", n, s.Open())
	}
}

func mustOpen(t *testing.T, st store.Store, name string) store.File {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
