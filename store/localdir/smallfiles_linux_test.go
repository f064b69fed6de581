package localdir

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
)

// later is a time at which the files of the tests have not changed for a long time. A bubble of
// synctest has another clock than the files.
var later = time.Now().Add(24 * time.Hour)

// smallDir returns a directory that keeps small files open, with a clock that shows later, the path
// of the directory, and a function that returns how many files were opened since its last call.
func smallDir(t *testing.T, most int) (d *Dir, path string, opened func() int) {
	t.Helper()
	path = t.TempDir()
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	d = New(root)
	d.Path, d.Small = path, &SmallFiles{Max: most, now: func() time.Time { return later }}
	var n atomic.Int64
	d.before = func(call string) error {
		if call == "open" {
			n.Add(1)
		}
		return nil
	}
	return d, path, func() int { return int(n.Swap(0)) }
}

// A part of a store shares open files with the store.
func TestSmallFilesOfPart(t *testing.T) {
	d, path, opened := smallDir(t, 10)
	if err := os.WriteFile(filepath.Join(path, "f"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	sub, end, err := store.CapabilitiesOf(d).Sub(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	for _, from := range []*Dir{sub.(*Dir), d} {
		if got := read(t, from, "f"); got != "content" {
			t.Errorf("the file has %q", got)
		}
	}
	if n := opened(); n != 1 {
		t.Errorf("%d files were opened, want 1", n)
	}
}

// read returns the content that a new reader of a file gets.
func read(t *testing.T, d *Dir, name string) string {
	t.Helper()
	f, err := d.Open(t.Context(), name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, fi.Size())
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Readers of a small file open it only once. The largest files that are kept have the documented
// size.
func TestSmallFilesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, path, opened := smallDir(t, 10)
		for size, want := range map[int]int{0: 1, 1: 1, keptSize: 1, keptSize + 1: 3} {
			name := "f" + strings.Repeat("x", size%100)
			text := strings.Repeat("y", size)
			write(t, filepath.Join(path, name), text)
			opened()
			for range 3 {
				if got := read(t, d, name); got != text {
					t.Errorf("%d bytes, want %d", len(got), size)
				}
			}
			if n := opened(); n != want {
				t.Errorf("a file of %d bytes was opened %d times by 3 readers, want %d", size, n, want)
			}
		}
	})
}

// Whatever happens to a name, its next reader gets the same content as a reader who opens the file.
func TestSmallFilesAreNeverStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, path, _ := smallDir(t, 100)
		at := func(name string) string { return filepath.Join(path, name) }
		fail := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		write(t, at("f"), "first")
		write(t, at("other"), "other")
		fail(os.Symlink("f", at("link")))
		fail(os.Link(at("f"), at("hard")))
		for _, step := range []struct {
			what          string
			do            func()
			f, link, hard string
		}{
			{"nothing", func() {}, "first", "first", "first"},
			{"written in place, with the same size", func() { write(t, at("f"), "secnd") }, "secnd", "secnd", "secnd"},
			{"its old time", func() { fail(os.Chtimes(at("f"), time.Unix(1, 0), time.Unix(1, 0))) }, "secnd", "secnd", "secnd"},
			{"written in place, with its old time", func() {
				write(t, at("f"), "third")
				fail(os.Chtimes(at("f"), time.Unix(1, 0), time.Unix(1, 0)))
			}, "third", "third", "third"},
			{"longer", func() { write(t, at("f"), "longer text") }, "longer text", "longer text", "longer text"},
			{"replaced", func() {
				write(t, at("new"), "replaced")
				fail(os.Rename(at("new"), at("f")))
			}, "replaced", "replaced", "longer text"},
			{"the link leads elsewhere", func() {
				fail(os.Remove(at("link")))
				fail(os.Symlink("other", at("link")))
			}, "replaced", "other", "longer text"},
			{"renamed away", func() { fail(os.Rename(at("f"), at("g"))) }, "no such", "other", "longer text"},
			{"back", func() { fail(os.Rename(at("g"), at("f"))) }, "replaced", "other", "longer text"},
			{"a directory", func() {
				fail(os.Remove(at("f")))
				fail(os.Mkdir(at("f"), 0o755))
			}, "not a regular file", "other", "longer text"},
			{"outside", func() {
				fail(os.Remove(at("link")))
				fail(os.Symlink("/etc/passwd", at("link")))
			}, "not a regular file", "outside", "longer text"},
		} {
			step.do()
			for range 2 {
				for name, want := range map[string]string{"f": step.f, "link": step.link, "hard": step.hard} {
					if got := read(t, d, name); got != want && !strings.Contains(got, want+" ") && !strings.HasSuffix(got, want) {
						t.Errorf("%s: %s has %q, want %q", step.what, name, got, want)
					}
				}
			}
		}
	})
}

// Each reader opens a file whose file system may get the content from elsewhere, because then only
// opening it gives the latest content. Here, the content comes from the kernel.
func TestSmallFilesOfOtherFileSystems(t *testing.T) {
	root, err := os.OpenRoot("/proc")
	if err != nil {
		t.Skip(err)
	}
	defer root.Close()
	d := New(root)
	d.Small = &SmallFiles{Max: 10, now: func() time.Time { return later }}
	if got := read(t, d, "version"); len(d.Small.kept) != 0 {
		t.Errorf("a file of /proc is kept: %q", got)
	}
}

// A file that may no longer be read is refused, although it is open.
func TestSmallFilesKeepPermissions(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything; TestSmallFilesAreNeverStale shows that a change of attributes counts")
	}
	synctest.Test(t, func(t *testing.T) {
		d, path, _ := smallDir(t, 10)
		write(t, filepath.Join(path, "f"), "x")
		_ = read(t, d, "f")
		if err := os.Chmod(filepath.Join(path, "f"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Open(t.Context(), "f"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v", err)
		}
	})
}

// A file that changes while it is opened is not kept. If its permissions changed, the state after
// the change does not mean that the file may be opened again. Once the file stays unchanged, it
// is kept. This test changes a time, which does not depend on the kernel's clock.
func TestSmallFilesThatChangeMeanwhile(t *testing.T) {
	d, path, opened := smallDir(t, 10)
	write(t, filepath.Join(path, "f"), "x")
	count := d.before
	d.before = func(call string) error {
		d.before = count
		return errors.Join(count(call), os.Chtimes(filepath.Join(path, "f"), time.Time{}, time.Unix(1, 0)))
	}
	for _, kept := range []int{0, 1, 1} {
		if got := read(t, d, "f"); got != "x" || len(d.Small.kept) != kept {
			t.Errorf("%q is read, and %d files are kept, want %d", got, len(d.Small.kept), kept)
		}
	}
	if n := opened(); n != 2 {
		t.Errorf("it was opened %d times, want 2", n)
	}
}

// A file that has just changed is not kept, because its times may not show the next change.
func TestSmallFilesThatJustChanged(t *testing.T) {
	d, path, _ := smallDir(t, 10)
	write(t, filepath.Join(path, "f"), "x")
	fi, err := os.Stat(filepath.Join(path, "f"))
	if err != nil {
		t.Fatal(err)
	}
	id, _ := IdentityOf(fi)
	for _, c := range []struct {
		age  time.Duration
		kept int
	}{{-time.Hour, 0}, {0, 0}, {keptAfter - 1, 0}, {keptAfter, 1}} {
		d.Small.now = func() time.Time { return id.Changed().Add(c.age) }
		if got := read(t, d, "f"); got != "x" || len(d.Small.kept) != c.kept {
			t.Errorf("%v after its change %q is read, and %d files are kept, want %d", c.age, got, len(d.Small.kept), c.kept)
		}
	}
}

// Files are closed if they have had no new reader for a while; a reader may keep a file for longer.
// There are never more than Max open files.
func TestSmallFilesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		d, path, opened := smallDir(t, most)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			write(t, filepath.Join(path, name), name)
			_ = read(t, d, name)
		}
		if n := len(d.Small.kept); n != most {
			t.Errorf("%d files are kept, want %d", n, most)
		}
		kept := d.Small.kept
		files := []store.File{}
		for _, f := range kept {
			files = append(files, f.File)
		}
		reader, err := d.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2*keptFor + time.Millisecond)
		synctest.Wait()
		if n := len(d.Small.kept); n != 0 {
			t.Errorf("%d files are kept, want none", n)
		}
		open := 0
		for _, f := range files {
			if _, err := f.Stat(); err == nil {
				open++
			}
		}
		var b [1]byte
		if _, err := reader.ReadAt(b[:], 0); err != nil || b[0] != 'a' || open != 1 {
			t.Errorf("the reader gets %q, %v; %d files are open, want its own", b, err, open)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
		for _, f := range files {
			if _, err := f.Stat(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("a file without readers is open: %v", err)
			}
		}
		if err := reader.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("a second Close: %v", err)
		}
		if _, err := reader.ReadAt(b[:], 0); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("reading after Close: %v", err)
		}
		if _, err := reader.Stat(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("Stat after Close: %v", err)
		}
		opened()
		if got := read(t, d, "a"); got != "a" || opened() != 1 {
			t.Errorf("it is opened again: %q", got)
		}
		// A file that is in use stays open.
		for range 10 {
			time.Sleep(keptFor / 2)
			_ = read(t, d, "a")
		}
		if n := opened(); n != 0 {
			t.Errorf("a file in use was opened %d times", n)
		}
	})
}

// A reader has the same methods as a file that is not shared.
func TestSmallFileMethods(t *testing.T) {
	d, path, _ := smallDir(t, 10)
	write(t, filepath.Join(path, "f"), "text")
	for range 2 {
		f, err := d.Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if at := store.LocationOf(f).Path; at != filepath.Join(path, "f") {
			t.Errorf("its place is %q", at)
		}
		alone, err := New(d.root.(dirRoot).Root).Open(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		defer alone.Close()
		want, _ := alone.(store.Identifier).Identity()
		if got, ok := f.(store.Identifier).Identity(); !ok || got != want {
			t.Errorf("its identity is %v, want %v", got, want)
		}
		b := make([]byte, 4)
		if n, err := f.(store.TryReader).TryReadAt([][]byte{b}, 0); n != 4 && !errors.Is(err, store.ErrWouldBlock) || n == 4 && string(b) != "text" {
			t.Errorf("%d bytes, %q, %v", n, b, err)
		}
		if _, ok := store.As[store.PartOpener](f); ok {
			t.Error("its offset would be shared")
		}
	}
}

// Many concurrent readers share files that are being replaced, and never read a wrong byte.
func TestSmallFilesAtOnce(t *testing.T) {
	d, path, _ := smallDir(t, 2)
	texts := []string{strings.Repeat("a", 100), strings.Repeat("b", 100)}
	write(t, filepath.Join(path, "f"), texts[0])
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 200 {
				if i == 0 {
					temp := filepath.Join(path, "new")
					_ = os.WriteFile(temp, []byte(texts[n%2]), 0o644)
					_ = os.Rename(temp, filepath.Join(path, "f"))
					continue
				}
				f, err := d.Open(context.Background(), "f")
				if err != nil {
					t.Error(err)
					return
				}
				b := make([]byte, 100)
				if _, err := f.ReadAt(b, 0); err != nil || !bytes.Equal(b, []byte(texts[0])) && !bytes.Equal(b, []byte(texts[1])) {
					t.Errorf("%q, %v", b, err)
				}
				_ = f.Close()
			}
		})
	}
	all.Wait()
}

// Opening a file that is open already allocates little memory: for the description of the file, and
// for its reader.
func TestSmallFileAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	d, path, _ := smallDir(t, 10)
	write(t, filepath.Join(path, "f"), "text")
	ctx := t.Context()
	got := testing.AllocsPerRun(100, func() {
		f, err := d.Open(ctx, "f")
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	})
	if got > 7 {
		t.Errorf("%v allocations, want 7 at most", got)
	}
}

// BenchmarkSmallFile adds a reader to a file that is kept open. It leaves out the work of the kernel,
// which looks up the name and reads.
func BenchmarkSmallFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		b.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		b.Fatal(err)
	}
	id, _ := IdentityOf(info)
	s := &SmallFiles{kept: map[store.Identity]*keptFile{id: {users: 1}}}
	d := &Dir{}
	b.ReportAllocs()
	for b.Loop() {
		r, ok := s.find(d, "f", info)
		if !ok {
			b.Fatal("it is not open")
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
