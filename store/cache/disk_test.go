package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// newLog returns a log, and a function that returns the number of its lines.
func newLog() (*slog.Logger, func() int) {
	w := &lockedBuffer{}
	return slog.New(slog.NewTextHandler(w, nil)), func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return bytes.Count(w.Bytes(), []byte("\n"))
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// blockFiles returns the names of the files of all blocks in a cache.
func blockFiles(t testing.TB, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, objectsName, "*", "*-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// used returns how many bytes the files below dir take, in pages. Blocks may be added and removed
// meanwhile, and one walk could count both a removed block and the block that replaced it.
// Therefore two walks must have the same result.
func used(t testing.TB, dir string) int64 {
	t.Helper()
	for sum, found := filesIn(t, dir); ; {
		again, same := filesIn(t, dir)
		if same == found {
			return sum
		}
		sum, found = again, same
	}
}

// filesIn returns the sum of the sizes of the files below dir, in pages, and all names and sizes.
func filesIn(t testing.TB, dir string) (sum int64, found string) {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			var fi fs.FileInfo
			if fi, err = e.Info(); err == nil {
				sum += (fi.Size() + pageSize - 1) / pageSize * pageSize
				fmt.Fprintln(&all, name, fi.Size())
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			err = nil
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return sum, all.String()
}

// The next process has the blocks that the previous one stored. If a block was changed or truncated
// since, that is detected, and the block is removed, counted and fetched again.
func TestRestart(t *testing.T) {
	l, dir := newLab(), t.TempDir()
	v := l.put("f", 4*blockSize+5)
	c := openCache(t, Config{Dir: dir})
	wantFile(t, c.Store("lab", l), "f", v)
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 5 })
	held := c.Stats().Held
	_ = c.Close()

	c = openCache(t, Config{Dir: dir})
	if st := c.Stats(); st.Blocks != 5 || st.Objects != 1 || st.Held != held {
		t.Errorf("after a restart: %+v, want %d bytes", st, held)
	}
	wantFile(t, c.Store("lab", l), "f", v)
	wantFile(t, c.Store("another", l), "f", v)
	if st := c.Stats(); st.Fetches != 5 || st.Corrupt != 0 {
		t.Errorf("what is there was fetched: %+v", st)
	}
	_ = c.Close()
	for i, file := range blockFiles(t, dir) {
		if strings.HasPrefix(filepath.Base(file), "4-") {
			continue
		}
		p, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if p[i*1000] ^= 4; i%4 == 3 {
			p = p[:len(p)-1]
		}
		if err := os.WriteFile(file, p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, lines := newLog()
	c = openCache(t, Config{Dir: dir, Log: log})
	wantFile(t, c.Store("lab", l), "f", v)
	wantFile(t, c.Store("another", l), "f", v)
	if st := c.Stats(); st.Fetches != 8 || st.Corrupt == 0 || st.Corrupt > 8 || lines() != 1 {
		t.Errorf("%d lines, %+v", lines(), st)
	}
	eventually(t, "all is stored again", func() bool { return c.Stats().Blocks == 10 })
	_ = c.Close()
	if r, err := Verify(t.Context(), dir, func(o Object, b int64, err error) { t.Error(o, b, err) }, func(name string, _ bool) { t.Error(name) }); err != nil || r.Blocks != 10 {
		t.Errorf("Verify = %+v, %v", r, err)
	}
}

// If a block is changed while this process has its file open, the change is detected when a reader
// reaches the block, by any call, and when its file is opened again.
func TestBlockChangesInUse(t *testing.T) {
	l, dir := newLab(), t.TempDir()
	v := l.put("f", 2*blockSize)
	c := openCache(t, Config{Dir: dir})
	s := c.Store("lab", l)
	wantFile(t, s, "f", v)
	stored := func() bool { return c.Stats().Blocks == 2 }
	eventually(t, "it is stored", stored)
	if f, err := os.Open(blockFiles(t, dir)[0]); err != nil {
		t.Fatal(err)
	} else if fi, err := f.Stat(); err != nil {
		t.Fatal(err)
	} else if _, ok := localdir.IdentityOf(fi); !ok {
		t.Skip("this system does not show that a file has changed")
	} else {
		f.Close()
	}
	try := func(f store.File) {
		if _, err := f.(store.TryReader).TryReadAt([][]byte{make([]byte, 10)}, 0); err == nil {
			t.Error("a changed block was read without a look at its checksum")
		}
		wantBytes(t, f, v, 0, blockSize)
	}
	for i, read := range []func(store.File){
		func(f store.File) { wantBytes(t, f, v, 0, blockSize) },
		try,
		func(f store.File) {
			if _, _, end, ok := f.(store.PartOpener).OpenPart(0, 10); ok {
				t.Error("a changed block is a part")
				end()
			}
			wantBytes(t, f, v, 0, blockSize)
		},
		func(f store.File) {
			c.mu.Lock()
			for _, b := range f.(*file).o.blocks {
				c.closeFile(b)
			}
			c.mu.Unlock()
			wantBytes(t, f, v, 0, blockSize)
		},
	} {
		files := blockFiles(t, dir)
		if len(files) != 2 {
			t.Fatal(files)
		}
		// A change within the same tick of the clock as the write would be invisible.
		eventually(t, "the block's time is over", func() bool {
			fi, err := os.Stat(files[0])
			if err != nil {
				t.Fatal(err)
			}
			id, _ := localdir.IdentityOf(fi)
			return time.Since(id.Changed()) > tickTime
		})
		if err := os.WriteFile(files[0], make([]byte, blockSize), 0o600); err != nil { // in place
			t.Fatal(err)
		}
		read(openFile(t, s, "f"))
		if n := c.Stats().Corrupt; n != uint64(i+1) {
			t.Errorf("after change %d: %d corrupt blocks", i+1, n)
		}
		eventually(t, "it is stored again", stored)
	}
	// If only the attributes of a block have changed, it is read once more, and is valid.
	if err := os.Chmod(blockFiles(t, dir)[0], 0o644); err != nil {
		t.Fatal(err)
	}
	fetched := c.Stats().Fetches
	f := openFile(t, s, "f")
	try(f)
	if n, err := f.(store.TryReader).TryReadAt([][]byte{make([]byte, 10)}, 0); n != 10 && !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a good block: %d bytes, %v", n, err)
	}
	if n := c.Stats().Fetches; n != fetched {
		t.Errorf("a good block was fetched again")
	}
}

// A checkedFile blocks the first read of a piece that computes a checksum, and counts such reads.
type checkedFile struct {
	store.File
	pieces atomic.Int32
	goOn   chan struct{}
}

func (f *checkedFile) ReadAt(p []byte, off int64) (int, error) {
	if len(p) == checkPiece {
		f.pieces.Add(1)
		<-f.goOn
	}
	return f.File.ReadAt(p, off)
}

// If many readers reach a block that may have changed, it is read only once to compute its
// checksum.
func TestOneComparesForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, c := newLab(), openCache(t, Config{})
		v := l.put("f", blockSize)
		s := c.Store("lab", l)
		f := openFile(t, s, "f")
		wantBytes(t, f, v, 0, blockSize)
		eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 1 })
		b := f.(*file).o.blocks[0]
		slow := &checkedFile{File: b.file, goOn: make(chan struct{})}
		c.mu.Lock()
		b.file, b.checked = slow, false
		c.mu.Unlock()
		for range 8 {
			f := openFile(t, s, "f")
			go wantBytes(t, f, v, 0, 10)
		}
		synctest.Wait()
		if n := slow.pieces.Load(); n != 1 {
			t.Errorf("%d readers compare the block with its checksum", n)
		}
		close(slow.goOn)
		synctest.Wait()
		if n := slow.pieces.Load(); n != blockSize/checkPiece {
			t.Errorf("%d pieces were read for the checksum of one block", n)
		}
	})
}

// The next process removes files that do not belong to the cache, and those of a process that died.
func TestLeftovers(t *testing.T) {
	l, dir := newLab(), t.TempDir()
	v := l.put("f", blockSize)
	c := openCache(t, Config{Dir: dir})
	wantFile(t, c.Store("lab", l), "f", v)
	_ = c.Close()
	object := filepath.Dir(blockFiles(t, dir)[0])
	for _, name := range []string{
		object + "/.haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part", object + "/1-00000000", object + "/0-00000000", object + "/x", object + "/2-00000000/y",
		filepath.Dir(object) + "/" + doomedPrefix + "x/0-00000000", filepath.Dir(object) + "/0123/0-00000000", filepath.Dir(object) + "/0123/info",
		filepath.Dir(object) + "/core",
	} {
		_ = os.MkdirAll(filepath.Dir(name), 0o700)
		if err := os.WriteFile(name, []byte("left"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c = openCache(t, Config{Dir: dir})
	wantFile(t, c.Store("lab", l), "f", v)
	if all := blockFiles(t, dir); len(all) != 1 || c.Stats().Blocks != 1 {
		t.Errorf("left: %q", all)
	}
	for pattern, want := range map[string]int{"*": 1, "*/*": 2} {
		if all, _ := filepath.Glob(filepath.Join(dir, objectsName, pattern)); len(all) != want {
			t.Errorf("left: %q", all)
		}
	}
	if st := c.Stats(); st.Held < used(t, dir) || st.Fetches != 0 {
		t.Errorf("%d bytes are counted, %d are there", st.Held, used(t, dir))
	}
}

// Only one of two processes uses the directory. The other one serves from its source until it gets
// the directory.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	l, dir := newLab(), t.TempDir()
	const blocks = openReleased + 2
	v := l.put("f", blocks*blockSize)
	first := openCache(t, Config{Dir: dir})
	if _, err := Open(Config{Dir: dir, Size: MinSize}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second process: %v", err)
	}
	s := first.Store("lab", l)
	wantFile(t, s, "f", v)
	eventually(t, "it is stored", func() bool { return first.Stats().Blocks == blocks })
	f := openFile(t, s, "f")
	second := openCache(t, Config{Dir: dir, Wait: true})
	s2 := second.Store("lab", l)
	wantFile(t, s2, "f", v)
	if st := second.Stats(); st.Writing || st.Blocks != 0 || st.DiskErrors != 0 {
		t.Errorf("one that waits: %+v", st)
	}
	if err := first.Release(); err != nil {
		t.Error(err)
	}
	eventually(t, "the successor has it", func() bool { return second.Stats().Writing })
	fetched := second.Stats().Fetches
	wantFile(t, s2, "f", v)
	if st := second.Stats(); st.Fetches != fetched || st.Blocks != blocks {
		t.Errorf("the successor: %+v", st)
	}
	wantBytes(t, f, v, 0, blocks*blockSize) // the previous process can still read the file
	for _, file := range blockFiles(t, dir) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	wantFile(t, s, "f", v) // it fetches the blocks again, because their files are gone
	if v := l.put("g", 100); true {
		wantFile(t, s, "g", v)
	}
	if st := first.Stats(); st.DiskErrors != 0 || st.Corrupt != 0 || len(blockFiles(t, dir)) != 0 {
		t.Errorf("the one before: %+v", st)
	}
}

// A directory that contains anything else is refused, and so are a size that is too small and a
// directory of a later version.
func TestBadDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir, Size: MinSize}); !errors.Is(err, errNoCache) {
		t.Errorf("a directory with a file: %v", err)
	}
	for _, cfg := range []Config{
		{Dir: t.TempDir(), Size: MinSize - 1}, {Size: MinSize}, {Dir: t.TempDir(), Size: MinSize, Memory: 1}, {Dir: t.TempDir(), Size: MinSize, Stale: -1},
	} {
		if _, err := Open(cfg); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, markerName), []byte("haul cache 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir, Size: MinSize}); err == nil {
		t.Error("another version is taken")
	}
	if err := List(t.Context(), t.TempDir(), nil, nil); !errors.Is(err, errNoCache) {
		t.Errorf("List of no cache: %v", err)
	}
}

// List, Verify and Clear work while the cache is in use.
func TestList(t *testing.T) {
	l, dir := newLab(), t.TempDir()
	c := openCache(t, Config{Dir: dir})
	s := c.Store("lab", l)
	v := l.put("dir/odd \"name\"\n\xff", 2*blockSize+7)
	wantFile(t, s, "dir/odd \"name\"\n\xff", v)
	wantFile(t, s, "empty", l.put("empty", 0))
	eventually(t, "it is stored", func() bool { return c.Stats().Blocks == 3 })
	var all []string
	none := func(name string, _ bool) { t.Errorf("%s is foreign", name) }
	err := List(t.Context(), dir, func(o Object) error {
		all = append(all, fmt.Sprintf("%+v", o))
		return nil
	}, none)
	want := fmt.Sprintf("%+v", Object{Source: "lab", Name: "dir/odd \"name\"\n\xff", Version: "v 1", Size: v.size, Blocks: 3, Of: 3, Bytes: v.size})
	if err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("List: %q, %v, want %q", all, err, want)
	}
	file := blockFiles(t, dir)[1] // the server has the old file open
	if err := errors.Join(os.WriteFile(file+"x", make([]byte, blockSize), 0o600), os.Rename(file+"x", file)); err != nil {
		t.Fatal(err)
	}
	foreignNames := []string{"README", "objects/core", path.Join("objects", filepath.Base(filepath.Dir(file)), "notes"), "objects/photos"}
	slices.Sort(foreignNames)
	if err := os.MkdirAll(filepath.Join(dir, objectsName, "photos", "2026"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(foreignNames, "objects/photos/2026/1.jpg") {
		if name == "objects/photos" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("not a block"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var foreign []string
	collect := func(name string, swept bool) {
		foreign = append(foreign, name)
		if swept != strings.HasPrefix(name, objectsName+"/") {
			t.Errorf("%s is swept: %v", name, swept)
		}
	}
	wantForeign := func(what string) {
		t.Helper()
		slices.Sort(foreign)
		if !slices.Equal(foreign, foreignNames) {
			t.Errorf("%s finds the foreign files %q, want %q", what, foreign, foreignNames)
		}
		foreign = nil
	}
	found := 0
	r, err := Verify(t.Context(), dir, func(_ Object, b int64, err error) {
		if found++; b != 1 || !errors.Is(err, errBadBlock) {
			t.Errorf("block %d: %v", b, err)
		}
	}, collect)
	if err != nil || r != (Result{Objects: 1, Blocks: 3, Bytes: v.size, Corrupt: 1, Foreign: 4}) || found != 1 {
		t.Errorf("Verify = %+v, %v, %d found", r, err, found)
	}
	wantForeign("Verify")
	if err := List(t.Context(), dir, func(Object) error { return nil }, collect); err != nil {
		t.Error(err)
	}
	wantForeign("List")
	if r, err := Clear(t.Context(), dir, collect); err != nil || r.Blocks != 2 {
		t.Errorf("Clear = %+v, %v", r, err)
	}
	wantForeign("Clear")
	wantFile(t, s, "dir/odd \"name\"\n\xff", v)
	_ = c.Close()
	if r, err := Clear(t.Context(), dir, collect); err != nil || r.Objects > 1 || r.Foreign != 4 {
		t.Errorf("Clear = %+v, %v", r, err)
	}
	wantForeign("Clear of a cache that is not in use")
	if err := List(t.Context(), dir, func(o Object) error { return fmt.Errorf("%+v is left", o) }, collect); err != nil {
		t.Error(err)
	}
	wantForeign("List behind that")
	if _, err := os.Stat(filepath.Join(dir, objectsName, "photos", "2026", "1.jpg")); err != nil {
		t.Error(err)
	}
	for _, name := range foreignNames {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Clear(t.Context(), dir, none); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, objectsName)); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
